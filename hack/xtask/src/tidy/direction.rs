//! Who may depend on whom: the table of ARCHITECTURE.md, held against cargo's metadata.
//!
//! What the table does not list is forbidden. Development dependencies obey it too, with one
//! addition: every crate may use `hack-testkit` in its tests, and `protocol-error-chain` anywhere.

use std::collections::BTreeMap;

use crate::finding::{Finding, Rule};
use crate::metadata::{Dependency, Metadata, Package};

const DIRECTION: Rule = Rule {
    name: "dependency-direction",
    why: "the direction of dependencies is the architecture: a pure crate that reaches a shell stops being testable without one",
};

/// The page that argues the table.
const PAGE: &str = include_str!("../../../../ARCHITECTURE.md");
const HEADING: &str = "### Who may depend on whom";

/// Our crates, each with those of our crates that it may use.
type Table = BTreeMap<&'static str, Vec<&'static str>>;

/// The table of the page: lines of `crate -> what it may use : why`, the first block after the
/// heading. A crate may have several lines.
fn table() -> Table {
    let block = PAGE
        .split_once(HEADING)
        .and_then(|(_, after)| after.split("```").nth(1));
    let lines = block.unwrap_or_default().lines().skip(1);
    let mut table = Table::new();
    for (user, rest) in lines.filter_map(|line| line.split_once(" -> ")) {
        let used = rest.split(" : ").next().unwrap_or_default();
        let used = used.split(',').map(str::trim);
        let row = table.entry(user.trim()).or_default();
        row.extend(used.filter(|name| *name != "nothing"));
    }
    table
}

/// The crates that decide and never act.
pub(super) const PURE: &[&str] = &[
    "protocol-model",
    "protocol-jobspec",
    "protocol-access",
    "protocol-wire",
    "protocol-api",
    "controlplane-state",
    "controlplane-scheduler",
    "controlplane-leader",
    "noded-core",
    "noded-template",
];

/// The crate that every other one may use.
const LEAF: &str = "protocol-error-chain";

/// Dependencies that one crate adapts for all others.
const EXCLUSIVE: &[(&str, &[&str])] = &[
    ("jsonwebtoken", &["protocol-access", "hack-features"]),
    ("openraft", &["controlplane-raft", "hack-features"]),
    ("tokio-uring", &["noded-daemon", "hack-features"]),
    ("gotmpl", &["noded-template", "hack-features"]),
];

/// Holds every declared dependency of every member against the table.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let members: Vec<&Package> = metadata.members().collect();
    let table = table();
    let mut findings = Vec::new();
    for member in &members {
        let manifest = format!("{}/Cargo.toml", metadata.folder(member));
        if !table.contains_key(member.name.as_str()) {
            findings.push(DIRECTION.on(
                &manifest,
                format!("{} has no row in the table of dependencies", member.name),
                "argue its place in ARCHITECTURE.md, and add the row there",
            ));
        }
        for dependency in &member.dependencies {
            let ours = members.iter().any(|other| other.name == dependency.name);
            findings.extend(
                judge(&table, &member.name, dependency, ours)
                    .map(|(what, fix)| DIRECTION.on(&manifest, what, fix)),
            );
        }
    }
    findings
}

/// What is wrong with one dependency, and what to do; `None` if it is allowed.
fn judge(
    table: &Table,
    user: &str,
    dependency: &Dependency,
    ours: bool,
) -> Option<(String, String)> {
    let used = dependency.name.as_str();
    let in_tests = dependency.kind.as_deref() == Some("dev");
    if !ours {
        let (_, owners) = EXCLUSIVE.iter().find(|(name, _)| *name == used)?;
        return (!owners.contains(&user)).then(|| {
            (
                format!("{user} depends on {used}"),
                format!("go through {}", owners.join(" or ")),
            )
        });
    }
    if used == LEAF || (used == "hack-testkit" && in_tests) {
        return None;
    }
    let allowed = table.get(user).map_or(&[][..], Vec::as_slice);
    if allowed.iter().any(|pattern| matches(pattern, used)) {
        return None;
    }
    let fix = if used == "hack-testkit" {
        "move it to [dev-dependencies]: nothing that ships may contain fixtures".to_owned()
    } else {
        format!("{user} may use: {}", list(allowed))
    };
    Some((format!("{user} depends on {used}"), fix))
}

/// `pure` means every crate that decides, `protocol-*` every crate of that folder.
fn matches(pattern: &str, name: &str) -> bool {
    if pattern == "pure" {
        return PURE.contains(&name);
    }
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

fn list(allowed: &[&str]) -> String {
    if allowed.is_empty() {
        "nothing of ours".to_owned()
    } else {
        allowed.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(name: &str, kind: Option<&str>) -> Dependency {
        Dependency {
            name: name.to_owned(),
            kind: kind.map(str::to_owned),
            req: "*".to_owned(),
            source: None,
            features: Vec::new(),
            uses_default_features: true,
        }
    }

    fn judged(user: &str, used: &Dependency, ours: bool) -> Option<(String, String)> {
        judge(&table(), user, used, ours)
    }

    #[test]
    fn the_table_is_that_of_the_page() {
        let table = table();
        assert_eq!(table["protocol-transport"], [""; 0]);
        assert_eq!(table["noded-core"], ["protocol-model", "protocol-wire"]);
        // Of several lines, and without what is said about them.
        let of_fuzz = &table["hack-fuzz"];
        assert_eq!(of_fuzz.first(), Some(&"protocol-*"));
        assert!(of_fuzz.contains(&"isolation"), "{of_fuzz:?}");
        assert_eq!(of_fuzz.len(), 13);
        assert!(table.len() > 20, "{table:?}");
    }

    #[test]
    fn what_the_table_lists_is_allowed() {
        let used = dependency("protocol-model", None);
        assert_eq!(judged("controlplane-state", &used, true), None);
        let used = dependency("protocol-transport", None);
        assert_eq!(judged("controlplane-server", &used, true), None);
    }

    #[test]
    fn what_it_does_not_list_is_forbidden_in_tests_too() {
        for kind in [None, Some("dev"), Some("build")] {
            let used = dependency("controlplane-server", kind);
            let (what, fix) = judged("controlplane-state", &used, true).unwrap();
            assert_eq!(what, "controlplane-state depends on controlplane-server");
            assert_eq!(
                fix,
                "controlplane-state may use: protocol-model, protocol-wire"
            );
        }
    }

    #[test]
    fn the_testkit_is_for_tests() {
        assert_eq!(
            judged("noded-core", &dependency("hack-testkit", Some("dev")), true),
            None
        );
        let shipped = judged("noded-core", &dependency("hack-testkit", None), true);
        assert!(shipped.unwrap().1.contains("dev-dependencies"));
    }

    #[test]
    fn nothing_depends_on_the_tools_not_even_the_tools() {
        assert!(judged("hack-e2e", &dependency("hack-xtask", None), true).is_some());
        assert!(judged("noded-daemon", &dependency("hack-sim", Some("dev")), true).is_some());
    }

    #[test]
    fn only_the_adapter_names_openraft() {
        assert_eq!(
            judged("controlplane-raft", &dependency("openraft", None), false),
            None
        );
        assert!(judged("controlplane-server", &dependency("openraft", None), false).is_some());
        assert_eq!(
            judged("controlplane-server", &dependency("axum", None), false),
            None
        );
    }

    #[test]
    fn a_crate_without_a_row_may_use_nothing() {
        let (_, fix) = judged("new-crate", &dependency("protocol-model", None), true).unwrap();
        assert_eq!(fix, "new-crate may use: nothing of ours");
    }

    #[test]
    fn every_pure_crate_uses_only_pure_crates() {
        let table = table();
        for user in PURE {
            for used in &table[user] {
                assert!(PURE.contains(used), "{user} may use {used}, which acts");
            }
        }
    }
}
