//! Constraints, affinities, spreads.

use protocol_model::validate::PATTERNS_MAX;
use serde_json::{Value, json};

use super::{assert_refused, errors, of_group, of_task};

#[test]
fn constraints_are_refused_for() {
    let constraint = |left: &str, operand: &str, right: &str| {
        of_group(json!({"Constraints":
            [{"LTarget": left, "Operand": operand, "RTarget": right}]}))
    };
    let place = "group \"web\" > constraint 1";
    assert_refused(vec![
        (
            constraint("a", "~", "b"),
            "group \"web\" > constraint 1 > operator",
            "\"~\"",
        ),
        (
            constraint("", "=", "b"),
            "group \"web\" > constraint 1 > attribute",
            "missing",
        ),
        (
            constraint("a", "regexp", ""),
            "group \"web\" > constraint 1 > value",
            "missing",
        ),
        (
            constraint("a", "regexp", "(["),
            "group \"web\" > constraint 1 > value",
            "is no regular expression: unclosed",
        ),
        (
            constraint("a", "version", ">= next"),
            "group \"web\" > constraint 1 > value",
            "such as \">= 1.2, < 2\"",
        ),
        (
            constraint("a", "semver", ">= 1.2"),
            "group \"web\" > constraint 1 > value",
            "such as \">= 1.2.3\"",
        ),
        (
            constraint("a", "is_set", "b"),
            "group \"web\" > constraint 1 > value",
            "no value",
        ),
        (
            constraint("a", "distinct_property", "0"),
            "group \"web\" > constraint 1 > value",
            "above zero",
        ),
        (
            of_task(json!({"Constraints": [{"Operand": "distinct_hosts"}]})),
            &format!("{} > task \"server\" > constraint 1", &place[..11]),
            "cannot stand in a task",
        ),
    ]);
}

#[test]
fn preferences_are_refused_for() {
    let affinity = |weight: i32| {
        of_group(json!({"Affinities": [{"LTarget": "a", "RTarget": "b", "Weight": weight}]}))
    };
    let spread = |spread: Value| of_group(json!({"Spreads": [spread]}));
    assert_refused(vec![
        (
            of_group(
                json!({"Affinities": [{"LTarget": "a", "Operand": "regexp", "RTarget": "*"}]}),
            ),
            "group \"web\" > affinity 1 > value",
            "is no regular expression",
        ),
        (affinity(0), "group \"web\" > affinity 1 > weight", "not 0"),
        (
            affinity(101),
            "group \"web\" > affinity 1 > weight",
            "is 101",
        ),
        (
            of_group(json!({"Affinities": [{"Operand": "distinct_hosts"}]})),
            "group \"web\" > affinity 1",
            "no preference",
        ),
        (
            spread(json!({})),
            "group \"web\" > spread 1 > attribute",
            "missing",
        ),
        (
            spread(json!({"Attribute": "a", "Weight": 101})),
            "group \"web\" > spread 1 > weight",
            "1 to 100",
        ),
        (
            spread(json!({"Attribute": "a", "SpreadTarget":
                [{"Value": "x", "Percent": 60}, {"Value": "y", "Percent": 60}]})),
            "group \"web\" > spread 1",
            "sum to 120",
        ),
    ]);
}

#[test]
fn every_operator_may_be_written() {
    for operator in [
        "=",
        "==",
        "is",
        "!=",
        "not",
        "<",
        "<=",
        ">",
        ">=",
        "regexp",
        "version",
        "semver",
        "set_contains",
        "set_contains_all",
        "set_contains_any",
    ] {
        let constraint = json!({"LTarget": "a", "Operand": operator, "RTarget": "1.0.0"});
        let job = of_group(json!({"Constraints": [constraint], "Affinities": [constraint]}));
        assert_eq!(errors(&job), [], "{operator}");
    }
    for constraint in [
        json!({"LTarget": "a", "Operand": "is_set"}),
        json!({"LTarget": "a", "Operand": "is_not_set"}),
        json!({"LTarget": "a", "Operand": "distinct_property"}),
        json!({"Operand": "distinct_hosts", "RTarget": "true"}),
        // What it is compared with is known on the node only.
        json!({"LTarget": "a", "Operand": "regexp", "RTarget": "${meta.pattern}["}),
        json!({"LTarget": "a", "Operand": "version", "RTarget": "${meta.version}"}),
    ] {
        assert_eq!(errors(&of_group(json!({"Constraints": [constraint]}))), []);
    }
}

#[test]
fn a_job_has_a_bounded_number_of_different_patterns() {
    let constraint =
        |n: usize| json!({"LTarget": "a", "Operand": "regexp", "RTarget": n.to_string()});
    let constraints = |count: usize| (0..count).map(constraint).collect::<Vec<_>>();
    let repeated = [constraints(PATTERNS_MAX), constraints(PATTERNS_MAX)].concat();
    assert_eq!(errors(&of_group(json!({"Constraints": repeated}))), []);
    assert_refused(vec![(
        of_group(json!({"Constraints": constraints(PATTERNS_MAX + 1)})),
        "group \"web\" > constraint 65 > value",
        "at most 64 different",
    )]);
}
