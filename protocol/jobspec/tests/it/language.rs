//! Expressions: what `value = EXPRESSION` gives.

use crate::job;
use serde_json::{Value as Json, json};

/// The value of an expression, with `declarations` in front of the job.
pub(crate) fn value_with(declarations: &str, expression: &str) -> Json {
    let text = format!(
        "{declarations}\njob \"j\" {{\n group \"g\" {{\n task \"t\" {{\n config {{\n value = {expression}\n}}\n}}\n}}\n}}\n"
    );
    job(&text)["TaskGroups"][0]["Tasks"][0]["Config"]["value"].clone()
}

pub(crate) fn value(expression: &str) -> Json {
    value_with("", expression)
}

/// Compares each expression with its value.
pub(crate) fn check(table: &[(&str, Json)]) {
    for (expression, wanted) in table {
        assert_eq!(value(expression), *wanted, "{expression}");
    }
}

#[test]
fn operators_follow_arithmetic_and_precedence() {
    check(&[
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3", json!(9)),
        ("7 / 2", json!(3.5)),
        ("8 / 2", json!(4)),
        ("-7 % 3", json!(-1)),
        ("\"2\" + 1", json!(3)),
        ("1 == 1.0 && !false", json!(true)),
        ("\"1\" == 1", json!(false)),
        ("2 >= 2 ? \"yes\" : \"no\"", json!("yes")),
        ("false && (1 / 0 == 1)", json!(false)),
        (
            "9223372036854775807 + 1",
            json!(9_223_372_036_854_775_808_u64),
        ),
    ]);
}

#[test]
fn strings_interpolate_and_a_lone_interpolation_keeps_its_kind() {
    check(&[
        ("\"a${1 + 1}b\"", json!("a2b")),
        ("\"${[1, 2]}\"", json!([1, 2])),
        ("\"$${HOME} %%{if}\"", json!("${HOME} %{if}")),
        ("\"${true ? \"x\" : \"y\"}-${\"n\"}\"", json!("x-n")),
        ("\"tab\\t\\u00e9\"", json!("tab\té")),
        ("\"%{ if 1 > 2 }a%{ else }b%{ endif }c\"", json!("bc")),
        (
            "\"%{ for k, v in { a = 1, b = 2 } }${k}${v} %{ endfor }\"",
            json!("a1 b2 "),
        ),
        ("\"x ${~ \"y\" ~} z\"", json!("xyz")),
        (
            "\"[%{ for v in [1, 2] ~} ${v}, %{~ endfor }]\"",
            json!("[1,2,]"),
        ),
    ]);
}

#[test]
fn heredocs_keep_or_lose_their_indentation() {
    assert_eq!(
        value("<<EOT\n  a ${1 + 1}\n    b\nEOT"),
        json!("  a 2\n    b\n")
    );
    assert_eq!(
        value("<<-EOT\n    a\n      $${X}\n    EOT"),
        json!("a\n  ${X}\n")
    );
    let list = "%{ for p in [80, 443] ~}\nport ${p}\n%{ endfor ~}\n";
    assert_eq!(
        value(&format!("<<EOT\n{list}EOT")),
        json!("port 80\nport 443\n")
    );
}

#[test]
fn unknown_roots_stay_as_text_for_the_node() {
    check(&[
        ("\"${attr.kernel.name}\"", json!("${attr.kernel.name}")),
        (
            "\"a-${NOMAD_PORT_http}-b\"",
            json!("a-${NOMAD_PORT_http}-b"),
        ),
        (
            "\"${meta[\"rack\"]}.${env.X}\"",
            json!("${meta[\"rack\"]}.${env.X}"),
        ),
        ("\"${node.unique.name}\"", json!("${node.unique.name}")),
        ("attr.cpu.arch", json!("${attr.cpu.arch}")),
        ("upper(\"${attr.os.name}\")", json!("${ATTR.OS.NAME}")),
    ]);
}

#[test]
fn collections_are_indexed_splatted_and_iterated() {
    check(&[
        ("[1, 2, 3][1]", json!(2)),
        ("{ a = { b = [5] } }.a[\"b\"][0]", json!(5)),
        (
            "{ \"x y\" = 1, (\"k${1}\") = 2, z : 3 }",
            json!({ "x y": 1, "k1": 2, "z": 3 }),
        ),
        ("[{ n = 1 }, { n = 2 }][*].n", json!([1, 2])),
        ("[{ n = [7] }, { n = [8] }].*.n[0]", json!([7])),
        ("[{ n = [7] }, { n = [8] }][*].n[0]", json!([7, 8])),
        ("\"one\"[*]", json!(["one"])),
        ("null[*]", json!([])),
        ("[for v in [1, 2, 3] : v * 10 if v != 2]", json!([10, 30])),
        (
            "[for i, v in [\"a\", \"b\"] : \"${i}${v}\"]",
            json!(["0a", "1b"]),
        ),
        (
            "{ for k, v in { a = 1 } : upper(k) => v + 1 }",
            json!({ "A": 2 }),
        ),
        (
            "{ for v in [\"ax\", \"ay\", \"bx\"] : substr(v, 0, 1) => v... }",
            json!({ "a": ["ax", "ay"], "b": ["bx"] }),
        ),
    ]);
}

#[test]
fn locals_are_defined_in_any_order_and_over_several_blocks() {
    let declarations = "locals {\n b = \"${local.a}!\"\n c = [local.b, local.d.x]\n}\n\
        locals {\n a = upper(\"hi\")\n d = { x = 1 }\n}";
    assert_eq!(value_with(declarations, "local.c"), json!(["HI!", 1]));
}

#[test]
fn a_scope_ends_with_its_loop() {
    let twice = "[for a in [1, 2] : [for b in [10] : a + b]]";
    assert_eq!(value(twice), json!([[11], [12]]));
    assert_eq!(value("[[for a in [1] : a], a]"), json!([[1], "${a}"]));
}
