//! Expressions: what `value = EXPRESSION` gives.

use crate::{inputs, job};
use protocol_jobspec::{
    Diagnostics, Directories, FileError, Inputs, VariableFile, Variables, parse,
};
use serde_json::{Value as Json, json};

/// The value of an expression, with `declarations` in front of the job.
fn value_with(declarations: &str, expression: &str) -> Json {
    let text = format!(
        "{declarations}\njob \"j\" {{\n group \"g\" {{\n task \"t\" {{\n config {{\n value = {expression}\n}}\n}}\n}}\n}}\n"
    );
    job(&text)["TaskGroups"][0]["Tasks"][0]["Config"]["value"].clone()
}

fn value(expression: &str) -> Json {
    value_with("", expression)
}

/// Compares each expression with its value.
fn check(table: &[(&str, Json)]) {
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
fn numeric_functions() {
    check(&[
        ("abs(-3)", json!(3)),
        ("ceil(1.2)", json!(2)),
        ("floor(-1.2)", json!(-2)),
        ("log(8, 2)", json!(3)),
        ("max(1, \"5\", 3)", json!(5)),
        ("min([4, 2]...)", json!(2)),
        ("parseint(\"ff\", 16)", json!(255)),
        ("pow(2, 10)", json!(1024)),
        ("signum(-9)", json!(-1)),
        ("sum([1, 2.5])", json!(3.5)),
    ]);
}

#[test]
fn text_functions() {
    check(&[
        ("chomp(\"a\\r\\n\\n\")", json!("a")),
        (
            "format(\"%s-%03d|%-4s|%5.1f|%x|%q|%t|%%\", \"a\", 7, \"b\", 2.25, 255, \"q\", true)",
            json!("a-007|b   |  2.2|ff|\"q\"|true|%"),
        ),
        (
            "format(\"%[2]s %[1]s %v %#v\", \"a\", \"b\", [1], \"s\")",
            json!("b a b [1]"),
        ),
        (
            "formatlist(\"%s:%d\", [\"a\", \"b\"], 5)",
            json!(["a:5", "b:5"]),
        ),
        ("indent(2, \"a\\nb\")", json!("a\n  b")),
        ("join(\",\", [\"a\", \"b\"], [\"c\"])", json!("a,b,c")),
        ("lower(\"ÄB\")", json!("äb")),
        ("title(\"hello big world\")", json!("Hello Big World")),
        ("trim(\"?!a?\", \"!?\")", json!("a")),
        ("trimprefix(\"v1\", \"v\")", json!("1")),
        ("trimsuffix(\"a.nomad\", \".nomad\")", json!("a")),
        ("trimspace(\"  a \")", json!("a")),
        ("replace(\"a.b.c\", \".\", \"-\")", json!("a-b-c")),
        ("regex(\"[a-z]+\", \"12ab\")", json!("ab")),
        ("regex(\"(\\\\d+)-(\\\\d+)\", \"1-2\")", json!(["1", "2"])),
        (
            "regex(\"(?P<y>\\\\d+)\", \"x2026\")",
            json!({ "y": "2026" }),
        ),
        ("regexall(\"[a-z]\", \"a1b\")", json!(["a", "b"])),
        (
            "regex_replace(\"1a2\", \"(\\\\d)\", \"<$1>\")",
            json!("<1>a<2>"),
        ),
        ("split(\",\", \"a,b\")", json!(["a", "b"])),
        ("strlen(\"äöü\")", json!(3)),
        ("strrev(\"abc\")", json!("cba")),
        ("substr(\"hello\", 1, 3)", json!("ell")),
        ("substr(\"hello\", -2, -1)", json!("lo")),
        ("startswith(\"abc\", \"ab\")", json!(true)),
        ("endswith(\"abc\", \"ab\")", json!(false)),
    ]);
}

#[test]
fn collection_functions() {
    check(&[
        ("chunklist([1, 2, 3], 2)", json!([[1, 2], [3]])),
        ("coalesce(null, \"a\")", json!("a")),
        ("coalescelist([], [1])", json!([1])),
        ("compact([\"a\", \"\", null])", json!(["a"])),
        ("concat([1], [2], [3])", json!([1, 2, 3])),
        ("contains([1, 2], 2)", json!(true)),
        ("distinct([\"b\", \"a\", \"b\"])", json!(["b", "a"])),
        ("element([\"a\", \"b\"], 3)", json!("b")),
        ("flatten([1, [2, [3]]])", json!([1, 2, 3])),
        ("keys({ b = 1, a = 2 })", json!(["a", "b"])),
        ("length({ a = 1 }) + length([1, 2])", json!(3)),
        ("lookup({ a = 1 }, \"b\", 9)", json!(9)),
        (
            "merge({ a = 1, b = 1 }, { b = 2 })",
            json!({ "a": 1, "b": 2 }),
        ),
        ("range(3)", json!([0, 1, 2])),
        ("range(4, 0, -2)", json!([4, 2])),
        ("reverse([1, 2])", json!([2, 1])),
        ("setintersection([1, 2], [2, 3])", json!([2])),
        (
            "setproduct([\"a\", \"b\"], [1, 2])",
            json!([["a", 1], ["a", 2], ["b", 1], ["b", 2]]),
        ),
        ("setsubtract([1, 2], [2])", json!([1])),
        ("setunion([2], [1, 2])", json!([1, 2])),
        ("slice([1, 2, 3], 1, 3)", json!([2, 3])),
        ("sort([\"b\", \"a\"])", json!(["a", "b"])),
        ("values({ b = 1, a = 2 })", json!([2, 1])),
        ("zipmap([\"a\", \"b\"], [1, 2])", json!({ "a": 1, "b": 2 })),
        (
            "csvdecode(\"a,b\\n1,\\\"x,y\\\"\\n\")",
            json!([{ "a": "1", "b": "x,y" }]),
        ),
    ]);
}

#[test]
fn encodings_hashes_and_identifiers() {
    check(&[
        ("base64encode(\"hi\")", json!("aGk=")),
        ("base64decode(\"aGk=\")", json!("hi")),
        (
            "jsondecode(\"{\\\"a\\\": [1, null]}\")",
            json!({ "a": [1, null] }),
        ),
        (
            "jsonencode({ b = [true], a = 1.5 })",
            json!("{\"a\":1.5,\"b\":[true]}"),
        ),
        ("urlencode(\"a b&ü\")", json!("a+b%26%C3%BC")),
        ("md5(\"abc\")", json!("900150983cd24fb0d6963f7d28e17f72")),
        (
            "sha1(\"abc\")",
            json!("a9993e364706816aba3e25717850c26c9cd0d89d"),
        ),
        (
            "sha256(\"abc\")",
            json!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ),
        ("substr(sha512(\"abc\"), 0, 16)", json!("ddaf35a193617aba")),
        (
            "uuidv5(\"dns\", \"example.com\")",
            json!("cfbff0d1-9375-5685-968c-48ce8b15ae17"),
        ),
        ("length(distinct([uuidv4(), uuidv4()]))", json!(2)),
        (
            "regex(\"^[0-9a-f]{8}-[0-9a-f]{4}-4\", uuidv4()) != \"\"",
            json!(true),
        ),
    ]);
    assert_eq!(
        value("uuidv4()"),
        value("uuidv4()"),
        "one seed, one sequence"
    );
}

#[test]
fn networks_time_and_conversions() {
    check(&[
        ("cidrhost(\"10.12.112.0/20\", 16)", json!("10.12.112.16")),
        (
            "cidrhost(\"fd00:fd12:3456:7890::/72\", 34)",
            json!("fd00:fd12:3456:7890::22"),
        ),
        ("cidrhost(\"10.0.0.0/24\", -1)", json!("10.0.0.255")),
        ("cidrnetmask(\"172.16.0.0/12\")", json!("255.240.0.0")),
        (
            "cidrsubnet(\"172.16.0.0/12\", 4, 2)",
            json!("172.18.0.0/16"),
        ),
        (
            "cidrsubnets(\"10.1.0.0/16\", 4, 4, 8, 4)",
            json!([
                "10.1.0.0/20",
                "10.1.16.0/20",
                "10.1.32.0/24",
                "10.1.48.0/20"
            ]),
        ),
        ("timestamp()", json!("2026-01-02T03:04:05Z")),
        (
            "timeadd(timestamp(), \"1h30m\")",
            json!("2026-01-02T04:34:05Z"),
        ),
        (
            "timeadd(\"2026-01-01T00:00:00+02:00\", \"-1s\")",
            json!("2025-12-31T23:59:59+02:00"),
        ),
        (
            "formatdate(\"EEE, DD MMM YYYY hh:mm:ss ZZZ 'at' h H aa\", timestamp())",
            json!("Fri, 02 Jan 2026 03:04:05 UTC at 3 3 am"),
        ),
        ("tobool(\"true\")", json!(true)),
        ("tonumber(\"1.50\")", json!(1.5)),
        ("tostring(10)", json!("10")),
        ("tolist(toset([\"b\", \"a\", \"b\"]))", json!(["a", "b"])),
        ("tomap({ a = 1 })", json!({ "a": 1 })),
        ("convert([1, \"2\"], list(string))", json!(["1", "2"])),
        ("try([1][5], \"none\")", json!("none")),
        ("can(tonumber(\"x\"))", json!(false)),
        ("basename(\"/a/b.txt\")", json!("b.txt")),
        ("dirname(\"/a/b.txt\")", json!("/a")),
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

fn with_variables(declarations: &str, variables: Variables) -> Result<Json, Diagnostics> {
    let text = format!(
        "{declarations}\njob \"j\" {{\n group \"g\" {{\n task \"t\" {{\n config {{\n value = var.x\n}}\n}}\n}}\n}}"
    );
    let mut inputs = inputs();
    inputs.variables = variables;
    let job = serde_json::to_value(parse("v.nomad", &text, &mut inputs)?.job).expect("JSON");
    Ok(job["TaskGroups"][0]["Tasks"][0]["Config"]["value"].clone())
}

fn argument(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_variable_takes_the_strongest_of_default_environment_files_and_arguments() {
    let declaration = "variable \"x\" {\n type = string\n default = \"default\"\n}";
    let mut variables = Variables::default();
    let mut found = vec![with_variables(declaration, variables.clone()).unwrap()];
    variables
        .environment
        .push(argument("NOMAD_VAR_x", "environment"));
    variables
        .environment
        .push(argument("NOMAD_VAR_other", "ignored"));
    found.push(with_variables(declaration, variables.clone()).unwrap());
    variables.environment.push(argument("DROVER_VAR_x", "own"));
    found.push(with_variables(declaration, variables.clone()).unwrap());
    let file = |text: &str| VariableFile {
        name: "v.vars".to_owned(),
        text: text.to_owned(),
    };
    variables.files.push(file("x = \"file\""));
    found.push(with_variables(declaration, variables.clone()).unwrap());
    variables.files.push(file("{\"x\": \"json file\"}"));
    found.push(with_variables(declaration, variables.clone()).unwrap());
    variables.arguments.push(argument("x", "argument"));
    found.push(with_variables(declaration, variables).unwrap());
    assert_eq!(
        found,
        [
            "default",
            "environment",
            "own",
            "file",
            "json file",
            "argument"
        ]
        .map(Json::from)
    );
}

#[test]
fn variables_are_converted_to_their_types() {
    for (kind, given, wanted) in [
        ("number", "3", json!(3)),
        ("bool", "true", json!(true)),
        ("string", "[1]", json!("[1]")),
        ("list(string)", "[1, \"a\"]", json!(["1", "a"])),
        ("set(number)", "[2, 1, 2]", json!([1, 2])),
        ("map(string)", "{ a = 1 }", json!({ "a": "1" })),
        (
            "object({ n = number, l = list(any) })",
            "{ n = \"5\", l = [true], more = 1 }",
            json!({ "n": 5, "l": [true] }),
        ),
        ("tuple([string, number])", "[1, \"2\"]", json!(["1", 2])),
        ("any", "plain text", json!("plain text")),
    ] {
        let declaration = format!("variable \"x\" {{\n type = {kind}\n}}");
        let variables = Variables {
            arguments: vec![argument("x", given)],
            ..Variables::default()
        };
        assert_eq!(
            with_variables(&declaration, variables).unwrap(),
            wanted,
            "{kind}"
        );
    }
}

#[test]
fn a_default_gives_a_variable_without_type_its_kind() {
    let declaration = "variables {\n x = [1]\n}";
    let variables = Variables {
        arguments: vec![argument("x", "[2]")],
        ..Variables::default()
    };
    assert_eq!(with_variables(declaration, variables).unwrap(), json!([2]));
}

/// Inputs with two files.
struct Folder(protocol_jobspec::NoFiles);

impl Inputs for Folder {
    fn variables(&self) -> &Variables {
        self.0.variables()
    }

    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }

    fn seed(&self) -> u64 {
        self.0.seed()
    }

    fn file(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        match path {
            "a.txt" => Ok(b"content".to_vec()),
            "raw" => Ok(vec![0xff, 0xfe]),
            "../secret" => Err(FileError::Refused("outside of the job's folder".to_owned())),
            _ => Err(FileError::NotFound),
        }
    }

    fn matching_files(&mut self, _: &str, pattern: &str) -> Result<Vec<String>, FileError> {
        assert_eq!(pattern, "*.txt");
        Ok(vec!["b.txt".to_owned(), "a.txt".to_owned()])
    }

    fn directories(&self) -> Option<Directories> {
        Some(Directories {
            working: "/srv/jobs".to_owned(),
            home: "/users/me".to_owned(),
        })
    }
}

#[test]
fn file_functions_see_what_the_caller_gives() {
    let list = "[file(\"a.txt\"), filebase64(\"raw\"), fileexists(\"x\"), fileset(\".\", \"*.txt\"), \
        abspath(\"../b\"), pathexpand(\"~/c\")]";
    let text = format!("job \"j\" {{\n task \"t\" {{\n config {{\n v = {list}\n}}\n}}\n}}");
    let parsed = parse("f.nomad", &text, &mut Folder(inputs())).unwrap();
    let found = &parsed.job.task_groups[0].tasks[0].config["v"];
    assert_eq!(
        *found,
        json!([
            "content",
            "//4=",
            false,
            ["a.txt", "b.txt"],
            "/srv/b",
            "/users/me/c"
        ])
    );
}

#[test]
fn a_refused_file_says_why() {
    let text = "job \"j\" {\n meta {\n v = file(\"../secret\")\n}\n}";
    let problems = parse("f.nomad", text, &mut Folder(inputs())).unwrap_err();
    assert_eq!(
        problems.list()[0].message,
        "file(): outside of the job's folder"
    );
    assert_eq!(
        (problems.list()[0].line, problems.list()[0].column),
        (3, 11)
    );
}
