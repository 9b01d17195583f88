//! Packages that must not be built, or only for those that wrap them.

use std::collections::{BTreeMap, BTreeSet};

use super::lists::Ban;
use crate::finding::{Finding, Rule};
use crate::metadata::PackageKey;

const BAN: Rule = Rule {
    name: "banned-dependency",
    why: "deny.toml argues each ban beside its entry",
};

/// Holds the packages of one build against the bans.
pub(super) fn check(bans: &[Ban], built: &BTreeMap<PackageKey, BTreeSet<String>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((name, version), users) in built {
        let meant = |ban: &&Ban| ban.name == *name && covers(ban, version);
        for ban in bans.iter().filter(meant) {
            let mut unwrapped = users
                .iter()
                .filter(|user| !ban.wrappers.contains(user))
                .peekable();
            if !ban.wrappers.is_empty() && unwrapped.peek().is_none() {
                continue;
            }
            let users: Vec<&str> = unwrapped.map(String::as_str).collect();
            let reason = ban.reason.as_deref().unwrap_or("no reason given");
            findings.push(BAN.on(
                "Cargo.lock",
                format!(
                    "{name} {version} is built for {}: {reason}",
                    users.join(", ")
                ),
                format!("see who selects it with `cargo tree --invert {name}@{version}`"),
            ));
        }
    }
    findings
}

/// A requirement such as `<0.11` does not match pre-releases in semver's eyes; a ban means them
/// too.
fn covers(ban: &Ban, version: &semver::Version) -> bool {
    let released = semver::Version {
        pre: semver::Prerelease::EMPTY,
        ..version.clone()
    };
    ban.versions.matches(version) || ban.versions.matches(&released)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(name: &str, versions: &str, wrappers: &[&str]) -> Ban {
        Ban {
            name: name.to_owned(),
            versions: versions.parse().unwrap(),
            wrappers: wrappers.iter().map(|w| (*w).to_owned()).collect(),
            reason: Some("a reason".to_owned()),
        }
    }

    fn found(ban: Ban, version: &str, users: &[&str]) -> usize {
        let key = ("a".to_owned(), version.parse().unwrap());
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        check(&[ban], &BTreeMap::from([(key, users)])).len()
    }

    #[test]
    fn a_banned_package_is_found_and_another_is_not() {
        assert_eq!(found(ban("a", "*", &[]), "1.0.0", &["user"]), 1);
        assert_eq!(found(ban("b", "*", &[]), "1.0.0", &["user"]), 0);
    }

    #[test]
    fn a_floor_bans_what_is_below_it() {
        assert_eq!(found(ban("a", "<0.11.15", &[]), "0.11.14", &["user"]), 1);
        assert_eq!(found(ban("a", "<0.11.15", &[]), "0.11.15", &["user"]), 0);
    }

    #[test]
    fn a_pre_release_is_banned_with_its_release() {
        assert_eq!(found(ban("a", "*", &[]), "0.10.0-alpha.37", &["user"]), 1);
    }

    #[test]
    fn wrappers_may_use_it_and_nobody_else() {
        assert_eq!(found(ban("a", "*", &["adapter"]), "1.0.0", &["adapter"]), 0);
        assert_eq!(
            found(ban("a", "*", &["adapter"]), "1.0.0", &["adapter", "server"]),
            1
        );
    }
}
