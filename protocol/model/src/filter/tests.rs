//! The meaning of expressions, and the errors of those without a meaning.

use serde_json::{Value, json};

use super::*;

fn item() -> Value {
    json!({
        "ID": "web-1",
        "Status": "running",
        "Priority": 50,
        "SubmitTime": 1_700_000_000_000_000_001_u64,
        "Stop": false,
        "Datacenters": ["dc1", "dc2"],
        "Meta": { "owner": "tests", "a.b": "dotted", "empty": "" },
        "Nothing": null,
        "None": [],
    })
}

fn keeps(text: &str) -> Result<bool, FilterError> {
    Filter::parse(text)?.keeps(&item())
}

#[test]
fn expressions_hold_or_do_not() {
    let cases = [
        (r#"Status == "running""#, true),
        ("Status == running", true),
        ("Status != running", false),
        ("ID == web-1", true),
        ("Priority == 50", true),
        (r#"Priority == "50""#, true),
        ("Priority == 50.0", true),
        ("Priority != 49", true),
        ("SubmitTime == 1700000000000000001", true),
        ("SubmitTime == 1700000000000000002", false),
        ("Stop == false", true),
        (r#"Meta.owner == "tests""#, true),
        (r#"Meta["a.b"] == dotted"#, true),
        (r#""/Meta/a.b" == dotted"#, true),
        ("Datacenters contains dc1", true),
        ("Datacenters not contains dc1", false),
        (r#""dc2" in Datacenters"#, true),
        ("dc3 in Datacenters", false),
        ("dc3 not in Datacenters", true),
        ("owner in Meta", true),
        (r#"Status contains "runn""#, true),
        (r#""runn" in Status"#, true),
        (r#"ID matches "^web-\d+$""#, true),
        ("ID matches `^web-\\d$`", true),
        ("ID not matches `^batch`", true),
        ("Meta is empty", false),
        ("Meta is not empty", true),
        ("Meta.empty is empty", true),
        ("None is empty", true),
    ];
    for (text, expected) in cases {
        assert_eq!(keeps(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_there_equals_nothing_and_is_empty() {
    let cases = [
        ("Nothing is empty", true),
        ("Nothing == x", false),
        ("Nothing != x", true),
        ("Nothing.inner == x", false),
        ("Meta.team == x", false),
        ("Meta.team != x", true),
        ("Meta.team matches x", false),
        ("x in Meta.team", false),
        ("x not in Meta.team", true),
        ("Meta.team is empty", true),
    ];
    for (text, expected) in cases {
        assert_eq!(keeps(text), Ok(expected), "{text}");
    }
}

#[test]
fn and_binds_closer_than_or_and_not_closest() {
    let cases = [
        ("Status == running or Status == x and Priority == 1", true),
        (
            "(Status == running or Status == x) and Priority == 1",
            false,
        ),
        ("not Status == x and Priority == 50", true),
        ("not (Status == running and Priority == 50)", false),
        ("not not Status == running", true),
    ];
    for (text, expected) in cases {
        assert_eq!(keeps(text), Ok(expected), "{text}");
    }
}

#[test]
fn mistakes_are_named() {
    let cases = [
        ("", "expected a selector or a value, found the end"),
        ("Status", "expected an operator, found the end"),
        ("Status = running", "'=' at byte 7 means nothing here"),
        ("Status == ", "expected a value, found the end"),
        (
            "Status == \"x",
            "the text that begins at byte 10 is never closed",
        ),
        (
            "Status == a b",
            "expected \"and\", \"or\" or the end, found \"b\"",
        ),
        ("(Status == a", "expected \")\", found the end"),
        (
            "\"x\" == Status",
            "expected a selector, found the text \"x\"",
        ),
        ("x in \"y\"", "expected a selector, found the text \"y\""),
        (
            "Status is full",
            "expected \"empty\" after \"is\", found \"full\"",
        ),
        ("Status matches \"(\"", "not a regular expression"),
        ("any Datacenters as x { x == dc1 }", "means nothing here"),
        (
            "any Datacenters as x",
            "the quantifier \"any\" is not part of this release",
        ),
        ("Nope == 1", "selector \"Nope\" is not valid"),
        (
            "Status.inner == 1",
            "selector \"Status.inner\" is not valid",
        ),
        (
            "Priority == high",
            "\"Priority\" is a number: \"high\" is no number",
        ),
        ("Stop == perhaps", "neither true nor false"),
        ("Meta == x", "\"Meta\" is an object: it cannot equal \"x\""),
        ("Priority matches x", "only a text can be matched"),
        ("Priority is empty", "it cannot be empty"),
        ("x in Priority", "nothing can be in it"),
    ];
    for (text, expected) in cases {
        let words = keeps(text).expect_err(text).to_string();
        assert!(words.contains(expected), "{text}: {words}");
    }
}

#[test]
fn an_expression_has_limits() {
    let deep = format!("{}Status == running{}", "(".repeat(40), ")".repeat(40));
    assert_eq!(keeps(&deep), Err(FilterError::TooDeep));
    let deep = format!("{}Status == running", "not ".repeat(100_000));
    assert_eq!(keeps(&deep), Err(FilterError::TooLong));
    let large = format!("ID matches \"{}\"", "(a{1000}){1000}".repeat(3));
    assert!(matches!(keeps(&large), Err(FilterError::Regex(_))));
    let wide = vec!["Priority == 50"; 400].join(" and ");
    assert_eq!(keeps(&wide), Ok(true));
}
