//! Rules of constraints, affinities and spreads.

use std::collections::BTreeSet;

use crate::placement::{Affinity, Constraint, Operator, Spread};
use crate::validate::findings::Findings;
use crate::version::{Dialect, Requirement};

/// Where a constraint stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// At a job or group: may compare allocations with each other.
    JobOrGroup,
    /// At a task or device: is about one node.
    Task,
}

pub(super) fn check_constraints(constraints: &[Constraint], level: Level, findings: &mut Findings) {
    for (offset, constraint) in constraints.iter().enumerate() {
        findings.at(format!("constraint {}", offset + 1), |findings| {
            check_constraint(constraint, level, findings);
        });
    }
}

fn check_constraint(constraint: &Constraint, level: Level, findings: &mut Findings) {
    let Some(operator) = findings.parse("operator", constraint.operator()) else {
        return;
    };
    match operator {
        Operator::DistinctHosts | Operator::DistinctProperty if level == Level::Task => {
            findings.refuse_hint(
                format!("{operator} compares allocations and cannot stand in a task"),
                "move it to the group or the job",
            );
            return;
        }
        Operator::DistinctHosts => {
            if !matches!(constraint.r_target.as_str(), "" | "true" | "false") {
                let value = &constraint.r_target;
                findings.refuse_at("value", format!("must be true or false, is {value:?}"));
            }
            return;
        }
        Operator::DistinctProperty => {
            let value = constraint.r_target.as_str();
            if !value.is_empty() && !value.parse::<u64>().is_ok_and(|count| count > 0) {
                findings.refuse_at(
                    "value",
                    format!("must be a number above zero, is {value:?}"),
                );
            }
        }
        Operator::IsSet | Operator::IsNotSet if !constraint.r_target.is_empty() => {
            findings.refuse_at("value", format!("{operator} takes no value"));
        }
        _ => {}
    }
    check_comparison(
        operator,
        &constraint.l_target,
        &constraint.r_target,
        findings,
    );
}

/// What an operator compares: an attribute, with a value where it takes one.
fn check_comparison(operator: Operator, attribute: &str, value: &str, findings: &mut Findings) {
    match operator {
        Operator::Equal
        | Operator::NotEqual
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Greater
        | Operator::GreaterOrEqual
        | Operator::Regexp
        | Operator::Version
        | Operator::Semver
        | Operator::SetContainsAll
        | Operator::SetContainsAny => check_value(operator, value, findings),
        // The first two take none, and the others' is no attribute's.
        Operator::IsSet
        | Operator::IsNotSet
        | Operator::DistinctHosts
        | Operator::DistinctProperty => {}
    }
    if attribute.is_empty() {
        findings.refuse_at(
            "attribute",
            format!("missing: {operator} compares an attribute"),
        );
    }
}

/// What an attribute is compared with. A value that is wrong would fit no node, without a word.
fn check_value(operator: Operator, value: &str, findings: &mut Findings) {
    let wrong = match operator {
        _ if value.is_empty() => Some(format!("missing: {operator} compares with a value")),
        // Known on the node only.
        _ if value.contains("${") => None,
        Operator::Regexp => findings.wrong_pattern(value),
        Operator::Version => wrong_version(value, Dialect::Lenient),
        Operator::Semver => wrong_version(value, Dialect::Strict),
        _ => None,
    };
    if let Some(wrong) = wrong {
        findings.refuse_at("value", wrong);
    }
}

fn wrong_version(value: &str, dialect: Dialect) -> Option<String> {
    let example = match dialect {
        Dialect::Lenient => ">= 1.2, < 2",
        Dialect::Strict => ">= 1.2.3",
    };
    Requirement::parse(value, dialect)
        .is_none()
        .then(|| format!("{value:?} is no requirement on a version, such as {example:?}"))
}

pub(super) fn check_affinities(affinities: &[Affinity], findings: &mut Findings) {
    for (offset, affinity) in affinities.iter().enumerate() {
        findings.at(format!("affinity {}", offset + 1), |findings| {
            check_affinity(affinity, findings);
        });
    }
}

fn check_affinity(affinity: &Affinity, findings: &mut Findings) {
    let weight = affinity.weight();
    if weight == 0 || !(-100..=100).contains(&weight) {
        findings.refuse_at(
            "weight",
            format!("must be -100 to 100 and not 0, is {weight}"),
        );
    }
    let Some(operator) = findings.parse("operator", affinity.operator()) else {
        return;
    };
    if matches!(
        operator,
        Operator::DistinctHosts | Operator::DistinctProperty
    ) {
        findings.refuse_hint(
            format!("{operator} is no preference between nodes"),
            "write it as a constraint, or use spread",
        );
        return;
    }
    check_comparison(operator, &affinity.l_target, &affinity.r_target, findings);
}

pub(super) fn check_spreads(spreads: &[Spread], findings: &mut Findings) {
    for (offset, spread) in spreads.iter().enumerate() {
        findings.at(format!("spread {}", offset + 1), |findings| {
            check_spread(spread, findings);
        });
    }
}

fn check_spread(spread: &Spread, findings: &mut Findings) {
    if spread.attribute.is_empty() {
        findings.refuse_at("attribute", "missing");
    }
    if let Some(weight) = spread.weight
        && !(1..=100).contains(&weight)
    {
        findings.refuse_at("weight", format!("must be 1 to 100, is {weight}"));
    }
    let mut values = BTreeSet::new();
    for target in &spread.spread_target {
        findings.at(format!("target {:?}", target.value), |findings| {
            if !values.insert(&target.value) {
                findings.refuse("named twice");
            }
            if !(0..=100).contains(&target.percent) {
                findings.refuse_at(
                    "percent",
                    format!("must be 0 to 100, is {}", target.percent),
                );
            }
        });
    }
    let sum: i64 = spread
        .spread_target
        .iter()
        .map(|target| i64::from(target.percent))
        .sum();
    if sum > 100 {
        findings.refuse(format!(
            "the targets' percentages sum to {sum}, more than 100"
        ));
    }
}
