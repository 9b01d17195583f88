//! Compiled rights against a naive search, and the laws that every set of policies obeys.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use protocol_access::policy::{NamespaceRule, OperatorRule, Rule};
use protocol_access::{
    Acl, CapabilitySet, HostVolumeCapability, Level, LevelRule, NamespaceCapabilities,
    NamespaceCapability, NodePoolCapability, OperatorCapability, Policy, VariableCapability,
};

use NamespaceCapability as N;
use VariableCapability as V;

/// A policy with one rule for a namespace.
fn namespace(name: &str, level: &str) -> Policy {
    let capabilities = NamespaceCapabilities::of_level(level).expect("a level");
    rule(name, capabilities)
}

fn rule(name: &str, capabilities: NamespaceCapabilities) -> Policy {
    Policy {
        namespaces: vec![NamespaceRule {
            name: name.to_owned(),
            capabilities,
            variables: Vec::new(),
        }],
        ..Policy::default()
    }
}

fn variables(namespace: &str, path: &str, capabilities: &[V]) -> Policy {
    let variables = Rule {
        name: path.to_owned(),
        capabilities: capabilities.into(),
    };
    Policy {
        namespaces: vec![NamespaceRule {
            name: namespace.to_owned(),
            capabilities: CapabilitySet::EMPTY,
            variables: vec![variables],
        }],
        ..Policy::default()
    }
}

#[test]
fn narrow_read_beats_wide_write() {
    let acl = Acl::compile(&[namespace("*", "write"), namespace("prod-*", "read")]);
    assert!(acl.namespace("prod-web", N::ReadJob) && !acl.namespace("prod-web", N::SubmitJob));
    assert!(acl.namespace("dev", N::SubmitJob));
}

#[test]
fn exact_name_beats_every_glob() {
    let acl = Acl::compile(&[namespace("prod*", "deny"), namespace("prod", "read")]);
    assert!(acl.namespace("prod", N::ReadJob) && !acl.namespace("prod2", N::ReadJob));
}

#[test]
fn exact_rule_without_rights_hides_a_wider_glob() {
    let empty = rule("prod", CapabilitySet::EMPTY);
    let acl = Acl::compile(&[namespace("*", "read"), empty]);
    assert!(!acl.namespace("prod", N::ReadJob) && !acl.namespace_some("prod"));
}

#[test]
fn deny_clears_rules_of_the_same_name_alone() {
    let acl = Acl::compile(&[
        namespace("dev", "write"),
        namespace("dev", "deny"),
        namespace("*", "read"),
    ]);
    assert!(!acl.namespace("dev", N::ReadJob) && !acl.namespace_some("dev"));
    assert!(acl.namespace("prod", N::ReadJob));
}

#[test]
fn tie_of_globs_goes_to_deny_then_to_the_last_by_name() {
    let acl = Acl::compile(&[namespace("a*c", "deny"), namespace("ab*", "write")]);
    assert!(!acl.namespace("abc", N::ReadJob));
    let acl = Acl::compile(&[namespace("a*c", "write"), namespace("ab*", "read")]);
    assert!(acl.namespace("abc", N::ReadJob) && !acl.namespace("abc", N::SubmitJob));
}

#[test]
fn star_as_a_namespace_asks_for_any_rule() {
    let acl = Acl::compile(&[namespace("dev", "read"), namespace("prod", "deny")]);
    assert!(acl.namespace("*", N::ReadJob) && acl.in_some_namespace(N::ReadJob));
    assert!(!acl.namespace("*", N::SubmitJob) && acl.namespace_some("*"));
    let denied = Acl::compile(&[namespace("*", "deny")]);
    assert!(!denied.namespace_some("*") && !denied.in_some_namespace(N::ReadJob));
}

#[test]
fn deny_of_a_namespace_spares_its_variables() {
    let acl = Acl::compile(&[
        namespace("prod", "deny"),
        variables("prod", "web/*", &[V::Read]),
    ]);
    assert!(acl.variable("prod", "web/db", V::Read) && acl.variable("prod", "web/db", V::List));
    assert!(!acl.variable("prod", "web/db", V::Write) && !acl.variable("prod", "api", V::Read));
    assert!(acl.variables_some("prod") && acl.variables_some("*") && !acl.variables_some("dev"));
}

#[test]
fn variable_of_a_glob_namespace_loses_against_an_exact_one() {
    let acl = Acl::compile(&[
        variables("*", "web/db", &[V::Read, V::Write]),
        variables("prod", "web/db", &[V::List]),
        variables("prod", "web/*", &[V::Read]),
    ]);
    assert!(acl.variable("dev", "web/db", V::Write));
    assert!(!acl.variable("prod", "web/db", V::Read) && acl.variable("prod", "web/db", V::List));
    assert!(acl.variable("prod", "web/x", V::Read));
}

#[test]
fn nul_in_a_path_moves_no_border_between_namespaces() {
    let acl = Acl::compile(&[variables("a*", "b*", &[V::Read])]);
    assert!(acl.variable("ax", "bx", V::Read));
    assert!(!acl.variable("ax", "z\0b", V::Read) && !acl.variable("a\0b", "z", V::Read));
}

#[test]
fn operator_deny_takes_level_and_capabilities_away() {
    let operator = |level: Option<&str>, capabilities: &[OperatorCapability]| Policy {
        operator: Some(OperatorRule {
            level: level.and_then(LevelRule::parse),
            capabilities: capabilities.into(),
        }),
        ..Policy::default()
    };
    let save = operator(None, &[OperatorCapability::SnapshotSave]);
    let read = operator(Some("read"), &[OperatorCapability::KeyringRead]);
    let acl = Acl::compile([&save, &read]);
    assert!(acl.operator(OperatorCapability::SnapshotSave) && acl.operator_level(Level::Read));
    assert!(!acl.operator_level(Level::Write));
    for deny in [
        operator(Some("deny"), &[]),
        operator(None, &[OperatorCapability::Deny]),
    ] {
        let acl = Acl::compile([&save, &read, &deny]);
        assert!(!acl.operator(OperatorCapability::SnapshotSave));
        assert!(!acl.operator_level(Level::Read));
    }
}

#[test]
fn management_has_every_right_and_nothing_has_none() {
    let questions = |acl: &Acl| {
        [
            acl.is_management(),
            acl.namespace("any", N::SentinelOverride),
            acl.namespace_some("any"),
            acl.in_some_namespace(N::AllocNodeExec),
            acl.variable("any", "path", V::Destroy),
            acl.variables_some("any"),
            acl.node_pool("any", NodePoolCapability::Delete),
            acl.host_volume("any", HostVolumeCapability::MountReadwrite),
            acl.node(Level::Write),
            acl.agent(Level::Write),
            acl.quota(Level::Write),
            acl.operator_level(Level::Write),
            acl.operator(OperatorCapability::KeyringDelete),
            acl.plugin(protocol_access::PluginCapability::Read),
            acl.sentinel(protocol_access::SentinelCapability::Delete),
        ]
    };
    assert_eq!(questions(&Acl::management()), [true; 15]);
    assert_eq!(questions(&Acl::nothing()), [false; 15]);
    assert_eq!(questions(&Acl::compile(&[])), [false; 15]);
}

/// The rule as the design states it, step by step.
fn naive(policies: &[Policy], name: &str) -> NamespaceCapabilities {
    let rules: Vec<_> = policies.iter().flat_map(|p| &p.namespaces).collect();
    let united = |pattern: &str| {
        let same = rules.iter().filter(|rule| rule.name == pattern);
        let set = same.fold(CapabilitySet::EMPTY, |s, rule| s.union(rule.capabilities));
        set.effective()
    };
    if rules.iter().any(|rule| rule.name == name) {
        return united(name);
    }
    let mut best: Option<(usize, bool, &str)> = None;
    for pattern in rules.iter().map(|rule| rule.name.as_str()) {
        let stars = pattern.matches('*').count();
        let regex: Vec<_> = pattern.split('*').collect();
        if stars == 0 || !slowly_matches(&regex, name) {
            continue;
        }
        let difference = name.len() + stars - pattern.len();
        let candidate = (1000 - difference, united(pattern).is_denied(), pattern);
        best = best.max(Some(candidate));
    }
    best.map_or(CapabilitySet::EMPTY, |(_, _, pattern)| united(pattern))
}

/// Tries every place for every piece.
fn slowly_matches(pieces: &[&str], name: &str) -> bool {
    match pieces {
        [] => name.is_empty(),
        [last] => name == *last,
        [first, rest @ ..] => name.strip_prefix(first).is_some_and(|after| {
            (0..=after.len()).any(|skipped| slowly_matches(rest, &after[skipped..]))
        }),
    }
}

fn some_policy() -> impl Strategy<Value = Policy> {
    let name = prop_oneof![3 => "[ab]{0,2}\\*", 2 => "[ab*]{1,5}", 1 => "[ab]{1,4}"];
    let some = vec![N::ListJobs, N::ReadJob, N::SubmitJob, N::HostVolumeWrite];
    let capabilities = subsequence(some, 0..=4);
    let rule = (name, capabilities, prop::bool::weighted(0.2));
    prop::collection::vec(rule, 1..4).prop_map(|rules| {
        let rules = rules.into_iter().map(|(name, capabilities, deny)| {
            let denied = deny.then_some(N::Deny);
            NamespaceRule {
                name,
                capabilities: capabilities.into_iter().chain(denied).collect(),
                variables: Vec::new(),
            }
        });
        Policy {
            namespaces: rules.collect(),
            ..Policy::default()
        }
    })
}

/// Policies with variables as well: the same rules once more, as paths.
fn with_variables() -> impl Strategy<Value = Policy> {
    let capabilities = select(vec![&[V::Read][..], &[V::Write], &[V::Deny], &[V::List]]);
    let path = ("[ab/*]{1,4}", capabilities);
    (some_policy(), prop::collection::vec(path, 0..3)).prop_map(|(mut policy, paths)| {
        for rule in &mut policy.namespaces {
            rule.variables = paths
                .iter()
                .map(|(name, capabilities)| Rule {
                    name: name.clone(),
                    capabilities: (*capabilities).into(),
                })
                .collect();
        }
        policy
    })
}

/// All answers about a few names: what two equal sets of rights have in common.
fn answers(acl: &Acl) -> Vec<bool> {
    let names = ["a", "b", "ab", "ba", "aab", "abba", "bbbb", "*"];
    let mut answers = Vec::new();
    for name in names {
        let asked = N::ALL.iter().skip(1);
        answers.extend(asked.map(|capability| acl.namespace(name, *capability)));
        answers.push(acl.namespace_some(name));
        answers.push(acl.variables_some(name));
        for path in ["a", "ab", "a/b", "b/a/b"] {
            let asked = V::ALL.iter().skip(1);
            answers.extend(asked.map(|capability| acl.variable(name, path, *capability)));
        }
    }
    answers
}

proptest! {
    #[test]
    fn choice_of_rule_equals_a_naive_search(
        policies in prop::collection::vec(some_policy(), 1..12),
        name in "[ab]{1,6}",
    ) {
        let acl = Acl::compile(&policies);
        let expected = naive(&policies, &name);
        for capability in N::ALL {
            let allowed = acl.namespace(&name, *capability);
            prop_assert_eq!(allowed, expected.contains(*capability), "{}", capability);
        }
    }

    #[test]
    fn order_of_policies_does_not_matter(
        policies in prop::collection::vec(with_variables(), 1..6),
        turn in 0_usize..6,
    ) {
        let mut other = policies.clone();
        other.rotate_left(turn % policies.len());
        other.reverse();
        prop_assert_eq!(answers(&Acl::compile(&policies)), answers(&Acl::compile(&other)));
    }

    #[test]
    fn policy_given_twice_changes_nothing(
        policies in prop::collection::vec(with_variables(), 1..5),
    ) {
        let twice = policies.iter().chain(&policies);
        prop_assert_eq!(answers(&Acl::compile(&policies)), answers(&Acl::compile(twice)));
    }

    #[test]
    fn deny_added_never_widens(
        policies in prop::collection::vec(with_variables(), 0..6),
        name in "[ab*]{1,4}",
        path in "[ab/*]{1,4}",
    ) {
        let before = answers(&Acl::compile(&policies));
        let deny = Policy {
            namespaces: vec![NamespaceRule {
                name,
                capabilities: [N::Deny].as_slice().into(),
                variables: vec![Rule { name: path, capabilities: [V::Deny].as_slice().into() }],
            }],
            ..Policy::default()
        };
        let after = answers(&Acl::compile(policies.iter().chain([&deny])));
        let widened = before.iter().zip(&after).any(|(before, after)| !before && *after);
        prop_assert!(!widened);
    }
}
