//! One operator on two values: the arithmetic of constraints and affinities.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use protocol_model::version::{Dialect, Version};

use crate::feasible::target::Resolved;
use crate::scratch::Scratch;

/// Whether `left operand right` holds on a node.
///
/// Rules (Nomad, "constraint" block): `=`/`==`/`is` and `!=`/`not` compare text; order operators
/// compare numbers where both sides are numbers and text otherwise; a property that the node does
/// not have satisfies only `!=` and `is_not_set`. `distinct_hosts` and `distinct_property` are
/// about other allocations and are not asked here.
pub(crate) fn holds(
    operand: &str,
    left: &Resolved<'_>,
    right: &Resolved<'_>,
    scratch: &mut Scratch,
) -> bool {
    match operand {
        "!=" | "not" => left.value() != right.value(),
        "is_set" => left.value().is_some(),
        "is_not_set" => left.value().is_none(),
        _ => match (left.value(), right.value()) {
            (Some(left), Some(right)) => both(operand, left, right, scratch),
            _ => false,
        },
    }
}

fn both(operand: &str, left: &str, right: &str, scratch: &mut Scratch) -> bool {
    match operand {
        "=" | "==" | "is" => left == right,
        "<" => order(left, right).is_lt(),
        "<=" => order(left, right).is_le(),
        ">" => order(left, right).is_gt(),
        ">=" => order(left, right).is_ge(),
        "version" => version(left, right, Dialect::Lenient, scratch),
        "semver" => version(left, right, Dialect::Strict, scratch),
        "regexp" => scratch
            .regex(right)
            .is_some_and(|regex| regex.is_match(left)),
        "set_contains" | "set_contains_all" => {
            let have = members(left);
            members(right).iter().all(|wanted| have.contains(wanted))
        }
        "set_contains_any" => {
            let have = members(left);
            members(right).iter().any(|wanted| have.contains(wanted))
        }
        // Validation refuses other operators; a job that was stored by a newer release may still
        // bring one, and then no node is better than a wrong node.
        _ => false,
    }
}

/// Whole numbers as whole numbers, numbers as numbers, everything else as text.
fn order(left: &str, right: &str) -> Ordering {
    if let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) {
        return left.cmp(&right);
    }
    if let (Ok(left), Ok(right)) = (left.parse::<f64>(), right.parse::<f64>())
        && let Some(order) = left.partial_cmp(&right)
    {
        return order;
    }
    left.cmp(right)
}

fn version(left: &str, right: &str, dialect: Dialect, scratch: &mut Scratch) -> bool {
    let Some(version) = Version::parse(left, dialect) else {
        return false;
    };
    scratch
        .requirement(right, dialect)
        .is_some_and(|requirement| requirement.holds(&version))
}

fn members(list: &str) -> BTreeSet<&str> {
    list.split(',').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operand: &str, left: Option<&str>, right: Option<&str>) -> bool {
        let side = |value: Option<&'static str>| {
            value.map_or(Resolved::Missing, |value| Resolved::Value(value.into()))
        };
        let leak = |value: Option<&str>| value.map(|v| &*Box::leak(v.to_owned().into_boxed_str()));
        holds(
            operand,
            &side(leak(left)),
            &side(leak(right)),
            &mut Scratch::new(),
        )
    }

    #[test]
    fn every_operator_holds_where_it_should() {
        for (operand, left, right, expected) in [
            ("=", "linux", "linux", true),
            ("is", "linux", "darwin", false),
            ("!=", "a", "b", true),
            ("<", "9", "10", true),
            (">", "9.5", "10", false),
            (">=", "beta", "alpha", true),
            (">=", "-0.0", "0.0", true),
            ("<", "inf", "nan", true),
            ("version", "5.10.0", ">= 4.19", true),
            ("semver", "1.3.0-beta1", ">= 1.2.0", true),
            ("regexp", "amd64", "^(amd|arm)64$", true),
            ("regexp", "x86", "(", false),
            ("set_contains", "a, b,c", "a,c", true),
            ("set_contains", "a,b", "a,d", false),
            ("set_contains_any", "a,b", "d,b", true),
            ("no_such_operator", "a", "a", false),
        ] {
            assert_eq!(
                check(operand, Some(left), Some(right)),
                expected,
                "{left} {operand} {right}"
            );
        }
    }

    #[test]
    fn a_missing_property_satisfies_only_the_negative_operators() {
        for (operand, expected) in [
            ("=", false),
            ("!=", true),
            ("is_set", false),
            ("is_not_set", true),
            ("<", false),
            ("regexp", false),
            ("set_contains", false),
            ("version", false),
        ] {
            assert_eq!(check(operand, None, Some("1")), expected, "{operand}");
        }
    }
}
