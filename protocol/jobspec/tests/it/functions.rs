//! Functions: what each gives, and what it is refused.

use crate::language::{check, value};
use serde_json::json;

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
        ("reverse(\"abc\")", json!("cba")),
        ("index([\"a\", \"b\"], 1)", json!("b")),
        ("index({ a = 5 }, \"a\")", json!(5)),
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
fn a_password_is_hashed_with_a_salt_of_the_seed() {
    let hash = value("bcrypt(\"secret\", 4)");
    let text = hash.as_str().expect("text");
    assert!(text.starts_with("$2a$04$") && text.len() == 60, "{text}");
    assert_eq!(value("bcrypt(\"secret\", 4)"), hash, "one seed, one salt");
    assert_eq!(
        value("length(distinct([bcrypt(\"a\", 4), bcrypt(\"a\", 4)]))"),
        json!(2)
    );
    let text = "job \"j\" {\n meta {\n a = bcrypt(\"x\", 31)\n b = bcrypt(strrev(format(\"%80s\", \"\")))\n \
        c = rsadecrypt(\"x\", \"y\")\n d = join(\"\", [for i in range(20) : bcrypt(\"x\", 13)])\n}\n}";
    let messages: Vec<String> = crate::read(text)
        .unwrap_err()
        .list()
        .iter()
        .map(|problem| problem.message.clone())
        .collect();
    assert_eq!(
        messages,
        [
            "bcrypt(): this must be between 4 and 13, it is 31",
            "bcrypt(): a password ends at 72 bytes",
            "rsadecrypt(): private keys do not belong into job files",
            "bcrypt(): this file expands to more than a job file may",
        ]
    );
}

/// The names of Nomad's documentation, each of which a job file may use.
const DOCUMENTED: &str = "abs ceil floor log max min parseint pow signum chomp format formatlist \
    indent join lower regex_replace replace split strlen strrev substr title trim trimprefix \
    trimspace trimsuffix upper chunklist coalesce coalescelist compact concat contains distinct \
    element flatten index keys length lookup merge range reverse setintersection setproduct \
    setunion slice sort values zipmap base64decode base64encode csvdecode jsondecode jsonencode \
    urlencode yamldecode yamlencode abspath basename dirname file filebase64 fileexists fileset \
    pathexpand formatdate timeadd bcrypt md5 rsadecrypt sha1 sha256 sha512 uuidv4 uuidv5 \
    cidrhost cidrnetmask cidrsubnet cidrsubnets can convert try";

#[test]
fn every_documented_function_is_known_here() {
    for name in DOCUMENTED.split_whitespace() {
        // Called with too much, each complains of that, and none of not being there.
        let text = format!("job \"j\" {{\n meta {{\n v = {name}(1, 2, 3, 4, 5, 6, [])\n}}\n}}");
        if let Err(problems) = crate::read(&text) {
            let all = problems.to_string();
            assert!(!all.contains("there is no function"), "{all}");
        }
    }
}
