//! Who may depend on whom: the table of ARCHITECTURE.md, held against cargo's metadata.
//!
//! What the table does not list is forbidden. Development dependencies obey it too, with one
//! addition: every crate may use `hack-testkit` in its tests.

use crate::finding::{Finding, Rule};
use crate::metadata::{Dependency, Metadata, Package};

const DIRECTION: Rule = Rule {
    name: "dependency-direction",
    why: "the direction of dependencies is the architecture: a pure crate that reaches a shell stops being testable without one",
};

/// Our crates, each with those of our crates that it may use.
///
/// A change here is a change of the architecture: ARCHITECTURE.md argues it first.
const TABLE: &[(&str, &[&str])] = &[
    ("protocol-model", &[]),
    ("protocol-jobspec", &["protocol-model"]),
    ("protocol-wire", &["protocol-model"]),
    ("protocol-transport", &["protocol-wire"]),
    ("protocol-client", &["protocol-model"]),
    ("controlplane-state", &["protocol-model", "protocol-wire"]),
    (
        "controlplane-scheduler",
        &["protocol-model", "controlplane-state"],
    ),
    (
        "controlplane-leader",
        &["protocol-model", "controlplane-state"],
    ),
    (
        "controlplane-raft",
        &["protocol-wire", "protocol-transport"],
    ),
    (
        "controlplane-server",
        &[
            "protocol-*",
            "controlplane-state",
            "controlplane-scheduler",
            "controlplane-leader",
            "controlplane-raft",
        ],
    ),
    ("controlplane-cli", &["protocol-*", "controlplane-state"]),
    ("noded-core", &["protocol-model", "protocol-wire"]),
    ("noded-keeper", &["isolation"]),
    (
        "noded-daemon",
        &[
            "protocol-*",
            "noded-core",
            "noded-keeper",
            "isolation",
            "netns",
        ],
    ),
    ("isolation", &[]),
    ("netns", &[]),
    ("hack-xtask", &["*"]),
    ("hack-bench", &["*"]),
    (
        "hack-fuzz",
        &[
            "protocol-*",
            "controlplane-raft",
            "controlplane-state",
            "controlplane-server",
            "noded-core",
            "noded-daemon",
            "noded-keeper",
            "isolation",
        ],
    ),
    (
        "hack-e2e",
        &["protocol-client", "protocol-model", "protocol-transport"],
    ),
    (
        "hack-nodesim",
        &[
            "protocol-model",
            "protocol-transport",
            "noded-core",
            "noded-daemon",
        ],
    ),
    ("hack-testkit", PURE),
    ("hack-sim", PURE),
    (
        "hack-sim-cluster",
        &[
            "protocol-model",
            "protocol-transport",
            "controlplane-raft",
            "controlplane-state",
            "controlplane-server",
            "noded-core",
            "noded-daemon",
            "hack-nodesim",
            "hack-sim",
        ],
    ),
    ("hack-model-check", PURE),
];

/// The crates that decide and never act.
pub(super) const PURE: &[&str] = &[
    "protocol-model",
    "protocol-jobspec",
    "protocol-wire",
    "controlplane-state",
    "controlplane-scheduler",
    "controlplane-leader",
    "noded-core",
];

/// Dependencies that one crate adapts for all others.
const EXCLUSIVE: &[(&str, &[&str])] = &[
    ("openraft", &["controlplane-raft"]),
    ("tokio-uring", &["noded-daemon"]),
];

/// Holds every declared dependency of every member against the table.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let members: Vec<&Package> = metadata.members().collect();
    let mut findings = Vec::new();
    for member in &members {
        let manifest = format!("{}/Cargo.toml", metadata.folder(member));
        if !TABLE.iter().any(|(name, _)| *name == member.name) {
            findings.push(DIRECTION.on(
                &manifest,
                format!("{} has no row in the table of dependencies", member.name),
                "argue its place in ARCHITECTURE.md, then add the row in hack/xtask/src/tidy/direction.rs",
            ));
        }
        for dependency in &member.dependencies {
            let ours = members.iter().any(|other| other.name == dependency.name);
            findings.extend(
                judge(&member.name, dependency, ours)
                    .map(|(what, fix)| DIRECTION.on(&manifest, what, fix)),
            );
        }
    }
    findings
}

/// What is wrong with one dependency, and what to do; `None` if it is allowed.
fn judge(user: &str, dependency: &Dependency, ours: bool) -> Option<(String, String)> {
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
    if used == "hack-testkit" && in_tests {
        return None;
    }
    let allowed = TABLE
        .iter()
        .find(|(name, _)| *name == user)
        .map_or(&[][..], |(_, row)| row);
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

/// `*` means every crate but those of hack/, `protocol-*` every crate of that folder.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some("") => !name.starts_with("hack-"),
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
        }
    }

    #[test]
    fn what_the_table_lists_is_allowed() {
        let used = dependency("protocol-model", None);
        assert_eq!(judge("controlplane-state", &used, true), None);
        let used = dependency("protocol-transport", None);
        assert_eq!(judge("controlplane-server", &used, true), None);
    }

    #[test]
    fn what_it_does_not_list_is_forbidden_in_tests_too() {
        for kind in [None, Some("dev"), Some("build")] {
            let used = dependency("controlplane-server", kind);
            let (what, fix) = judge("controlplane-state", &used, true).unwrap();
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
            judge("noded-core", &dependency("hack-testkit", Some("dev")), true),
            None
        );
        let shipped = judge("noded-core", &dependency("hack-testkit", None), true);
        assert!(shipped.unwrap().1.contains("dev-dependencies"));
    }

    #[test]
    fn nothing_depends_on_the_tools_not_even_the_tools() {
        assert!(judge("hack-bench", &dependency("hack-xtask", None), true).is_some());
        assert!(judge("noded-daemon", &dependency("hack-sim", Some("dev")), true).is_some());
    }

    #[test]
    fn only_the_adapter_names_openraft() {
        assert_eq!(
            judge("controlplane-raft", &dependency("openraft", None), false),
            None
        );
        assert!(judge("controlplane-server", &dependency("openraft", None), false).is_some());
        assert_eq!(
            judge("controlplane-server", &dependency("axum", None), false),
            None
        );
    }

    #[test]
    fn a_crate_without_a_row_may_use_nothing() {
        let (_, fix) = judge("new-crate", &dependency("protocol-model", None), true).unwrap();
        assert_eq!(fix, "new-crate may use: nothing of ours");
    }

    #[test]
    fn every_pure_crate_uses_only_pure_crates() {
        for (user, allowed) in TABLE.iter().filter(|(user, _)| PURE.contains(user)) {
            for used in *allowed {
                assert!(PURE.contains(used), "{user} may use {used}, which acts");
            }
        }
    }
}
