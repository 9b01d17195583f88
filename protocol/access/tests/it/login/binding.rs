//! Binding rules: which are stored, and what they bind (threat 18).

use protocol_access::binding::{BindError, Bound, bind, check_binding_rule};
use protocol_access::claims::MappedClaims;
use protocol_model::BindingRule;

fn claims(values: &[(&str, &str)], groups: &[&str]) -> MappedClaims {
    let values = values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    MappedClaims {
        value: values.collect(),
        list: [("groups".to_owned(), groups)].into(),
    }
}

fn rule(selector: &str, bind_type: &str, bind_name: &str) -> BindingRule {
    BindingRule {
        id: "r".to_owned(),
        auth_method: "ci".to_owned(),
        selector: selector.to_owned(),
        bind_type: bind_type.to_owned(),
        bind_name: bind_name.to_owned(),
        ..BindingRule::default()
    }
}

fn client(policies: &[&str], roles: &[&str]) -> Bound {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Bound::Client {
        policies: owned(policies),
        roles: owned(roles),
    }
}

#[test]
fn matching_rules_bind_their_names_and_filled_values_are_lowered() {
    let rules = [
        rule("", "policy", "base"),
        rule("value.team == \"Ops\"", "role", "team-${value.team}"),
        rule(
            "\"admins\" in list.groups",
            "policy",
            "deploy-${ value.team }-x",
        ),
        rule("\"others\" in list.groups", "role", "other"),
        rule("", "policy", "base"),
    ];
    let bound = bind(&rules, &claims(&[("team", "Ops")], &["dev", "admins"]));
    assert_eq!(bound, Ok(client(&["base", "deploy-ops-x"], &["team-ops"])));
}

#[test]
fn management_wins_and_drops_the_rest() {
    let rules = [
        rule("", "policy", "${value.missing}"),
        rule("value.user == root", "management", ""),
        rule("", "role", "some"),
    ];
    assert_eq!(
        bind(&rules, &claims(&[("user", "root")], &[])),
        Ok(Bound::Management)
    );
}

#[test]
fn selector_that_cannot_be_evaluated_matches_nothing() {
    let rules = [
        rule("nonsense ==", "management", ""),
        rule("other.user == root", "management", ""),
        rule("value.user.deeper == root", "management", ""),
        rule("list.groups == root", "management", ""),
        rule("value.missing == root", "management", ""),
    ];
    let bound = bind(&rules, &claims(&[("user", "root")], &["root"]));
    assert_eq!(bound, Ok(client(&[], &[])));
}

#[test]
fn name_that_cannot_be_computed_refuses_the_login() {
    let claims = claims(&[("role", "admin role"), ("empty", "")], &[]);
    for (name, is_fill) in [
        ("${value.role}", false),
        ("${value.empty}", false),
        ("${value.missing}", true),
        ("x-${list.groups}", true),
        ("${groups}", true),
        ("${value.role", true),
    ] {
        let error = bind(&[rule("", "role", name)], &claims).expect_err(name);
        assert_eq!(matches!(error, BindError::Fill { .. }), is_fill, "{error}");
    }
}

#[test]
fn value_with_a_reference_in_it_is_not_filled_again() {
    let claims = claims(&[("a", "${value.b}"), ("b", "admin")], &[]);
    let bound = bind(&[rule("", "policy", "${value.a}")], &claims);
    assert!(matches!(bound, Err(BindError::Name { .. })), "{bound:?}");
}

proptest::proptest! {
    #[test]
    fn name_filled_from_a_claim_never_yields_management(
        value in "\\PC{0,40}|management|Management|\\$\\{value.x\\}|\" or 1 == 1",
        name in "[a-z-]{0,5}\\$\\{value.x\\}[a-z-]{0,5}|\\$\\{value.x\\}",
        kind in "policy|role|Management|\\$\\{value.x\\}|",
    ) {
        let claims = claims(&[("x", &value)], &[&value]);
        match bind(&[rule("", &kind, &name)], &claims) {
            Ok(Bound::Management) => panic!("management by {kind:?} {name:?} {value:?}"),
            Ok(Bound::Client { policies, roles }) => {
                for bound in policies.iter().chain(&roles) {
                    let is_allowed = |sign: char| sign.is_ascii_alphanumeric() || sign == '-';
                    proptest::prop_assert!(bound.len() <= 128 && bound.chars().all(is_allowed));
                }
            }
            Err(_) => {}
        }
    }
}

#[test]
fn rules_with_faults_are_refused_in_the_known_words() {
    let long = "x".repeat(4097);
    for (rule, words) in [
        (rule("", "", "x"), "bind type is missing"),
        (rule("", "role", ""), "bind name is missing"),
        (rule("", "policy", ""), "bind name is missing"),
        (rule("", "management", "x"), "bind name should be empty"),
        (rule("", "service", "x"), "bind type \"service\" is unknown"),
        (rule("value.x ==", "role", "x"), "selector is invalid: "),
        (rule("", "role", "${value.x"), "bind name is invalid: "),
        (
            rule("", "role", "${list.x}"),
            "bind name is invalid: ${list.x} is unknown",
        ),
        (rule("", "role", "${value.}"), "bind name is invalid: "),
        (
            rule("", "role", "two words"),
            "bind name is invalid: \"two words\" is no name",
        ),
        (rule("", "role", &long), "bind name has 4097 bytes"),
        (rule(&long, "role", "x"), "selector has 4097 bytes"),
    ] {
        let faults = check_binding_rule(&rule);
        let shown = faults
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        assert!(
            shown.starts_with(words) && faults.len() == 1,
            "{words}: {shown}"
        );
    }
    let mut nameless = rule("", "role", "x");
    nameless.auth_method = String::new();
    nameless.description = "d".repeat(257);
    assert_eq!(check_binding_rule(&nameless).len(), 2);
    for good in [
        rule("", "management", ""),
        rule("value.a == b", "role", "x-${value.a}"),
    ] {
        assert_eq!(check_binding_rule(&good), []);
    }
}
