//! `yamldecode` and `yamlencode`.

use crate::complaints;
use crate::language::{check, value};
use serde_json::json;

#[test]
fn yaml_is_read_by_the_core_schema() {
    let yaml = "a: 1\nb: [yes, 'true', 1.5, 0x1f, ~, 2026-01-02]\nc: &x {d: .5}\ne:\n  <<: *x\n  f: |\n    text\n";
    check(&[
        (
            &format!("yamldecode({yaml:?})"),
            json!({
                "a": 1,
                "b": ["yes", "true", 1.5, 31, null, "2026-01-02"],
                "c": { "d": 0.5 },
                "e": { "d": 0.5, "f": "text\n" },
            }),
        ),
        ("yamldecode(\"\") == null", json!(true)),
        ("yamldecode(\"!!str 1\")", json!("1")),
        (
            "yamldecode(\"- -7\\n- +7\\n- 1e3\\n- 12e\")",
            json!([-7, 7, 1000, "12e"]),
        ),
    ]);
}

#[test]
fn yaml_that_is_written_is_read_back() {
    let expression = "{ a = [1, [true, null], { b = \"x: \\\"y\\\"\\n\", c = [] }], d = { e = {} }, \
        f = \"no\" }";
    check(&[
        (
            &format!("yamlencode({expression})"),
            json!(
                "\"a\":\n- 1\n- - true\n  - null\n- \"b\": \"x: \\\"y\\\"\\n\"\n  \"c\": []\n\"d\":\n  \"e\": {}\n\"f\": \"no\"\n"
            ),
        ),
        ("yamlencode(\"a\")", json!("\"a\"\n")),
    ]);
    assert_eq!(
        value(&format!("yamldecode(yamlencode({expression}))")),
        value(expression)
    );
}

#[test]
fn yaml_that_is_wrong_or_means_harm_is_refused() {
    let refused = |text: &str| {
        let job = format!("job \"j\" {{\n meta {{\n v = yamldecode({text:?})\n}}\n}}");
        let found = complaints(&job);
        found.lines().next().unwrap_or_default().to_owned()
    };
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let list = vec![format!("*a{}", i - 1); 10].join(", ");
        laughs.push_str(&format!("a{i}: &a{i} [{list}]\n"));
    }
    let deep = "[".repeat(100_000);
    let found: Vec<String> = [
        "a: [1",
        "a: 1\na: 2",
        "a: *b",
        "--- 1\n--- 2",
        "[1]: 2",
        "!point {}",
        "!point 1",
        ".inf",
        "&a [*a]",
        "<<: 1",
        &laughs,
        &deep,
    ]
    .into_iter()
    .map(refused)
    .collect();
    insta::assert_snapshot!(found.join("\n"), @r##"
    test.nomad:3:17: yamldecode(): this is not YAML: line 2, column 1: while parsing a flow sequence, expected ',' or ']'
    test.nomad:3:17: yamldecode(): line 2: the key `a` is there already
    test.nomad:3:17: yamldecode(): this is not YAML: line 1, column 4: while parsing node, found unknown anchor
    test.nomad:3:17: yamldecode(): line 2: there is more than one document
    test.nomad:3:17: yamldecode(): line 1: a list cannot be a key
    test.nomad:3:6: this must be a string, it is a map
    test.nomad:3:17: yamldecode(): line 1: there is no type `!point`
    test.nomad:3:17: yamldecode(): line 1: `.inf` is no finite number
    test.nomad:3:17: yamldecode(): line 1: this alias stands for nothing
    test.nomad:3:17: yamldecode(): line 1: `<<` takes a map, not a number
    test.nomad:3:6: yamldecode(): line 6: this file expands to more than a job file may
    test.nomad:3:17: yamldecode(): this is not YAML: line 1, column 256: recursion limit exceeded
    "##);
}
