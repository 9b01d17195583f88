//! Why a namespace refuses a job, and why it is not deleted. The texts are Nomad's.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Parts of a job that its namespace does not allow. At least one is named.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub struct JobDenied {
    /// The namespace.
    pub namespace: String,
    /// Drivers of its tasks.
    pub drivers: Vec<String>,
    /// Modes of its groups' networks.
    pub network_modes: Vec<String>,
    /// Its node pool.
    pub node_pool: Option<String>,
}

impl JobDenied {
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            namespace: _,
            drivers,
            network_modes,
            node_pool,
        } = self;
        drivers.is_empty() && network_modes.is_empty() && node_pool.is_none()
    }
}

impl fmt::Display for JobDenied {
    /// One line for each kind of part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            drivers,
            network_modes,
            node_pool,
        } = self;
        let pool = node_pool.as_slice();
        let kinds = [
            ("task driver", drivers.as_slice()),
            ("group network mode", network_modes.as_slice()),
            ("node pool", pool),
        ];
        let mut lines = kinds.into_iter().filter(|(_, names)| !names.is_empty());
        if let Some((kind, names)) = lines.next() {
            line(f, kind, names, namespace)?;
        }
        for (kind, names) in lines {
            f.write_str("\n")?;
            line(f, kind, names, namespace)?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, kind: &str, names: &[String], namespace: &str) -> fmt::Result {
    if let [name] = names {
        return write!(
            f,
            "used {kind} {name:?} is not allowed in namespace {namespace:?}"
        );
    }
    write!(f, "used {kind}s [")?;
    for (number, name) in names.iter().enumerate() {
        let space = if number == 0 { "" } else { " " };
        write!(f, "{space}{name:?}")?;
    }
    write!(f, "] are not allowed in namespace {namespace:?}")
}

/// Jobs, allocations and variables that keep a namespace from being deleted. In a refusal, at least
/// one number is above 0.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{}", self.lines("").join("\n"))]
pub struct NamespaceHolds {
    /// The namespace.
    pub namespace: String,
    /// Jobs that are not dead.
    pub jobs: u64,
    /// Allocations that are not terminal.
    pub allocs: u64,
    /// Variables.
    #[serde(default)]
    pub variables: u64,
}

impl NamespaceHolds {
    /// Whether nothing keeps the namespace.
    pub fn is_empty(&self) -> bool {
        let Self {
            namespace: _,
            jobs,
            allocs,
            variables,
        } = self;
        *jobs == 0 && *allocs == 0 && *variables == 0
    }

    /// The text of a server in `region`.
    pub fn in_region(&self, region: &str) -> String {
        let place = format!(" in regions: [{region}]");
        self.lines(&place).join("\n")
    }

    fn lines(&self, place: &str) -> Vec<String> {
        let Self {
            namespace,
            jobs,
            allocs,
            variables,
        } = self;
        let kinds = [
            ("non-terminal jobs", jobs),
            ("non-terminal allocations", allocs),
            ("variables associated with it", variables),
        ];
        let held = kinds.into_iter().filter(|(_, number)| **number > 0);
        held.map(|(kind, number)| format!("namespace {namespace:?} has {kind}{place} ({number})"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn denied_parts_are_told_in_nomads_words() {
        let denied = JobDenied {
            namespace: "dev".to_owned(),
            drivers: texts(&["raw_exec"]),
            network_modes: Vec::new(),
            node_pool: None,
        };
        let one = "used task driver \"raw_exec\" is not allowed in namespace \"dev\"";
        assert_eq!(denied.to_string(), one);
        let denied = JobDenied {
            drivers: texts(&["a", "b"]),
            network_modes: texts(&["host"]),
            node_pool: Some("gpu".to_owned()),
            ..denied
        };
        let all = "used task drivers [\"a\" \"b\"] are not allowed in namespace \"dev\"\n\
                   used group network mode \"host\" is not allowed in namespace \"dev\"\n\
                   used node pool \"gpu\" is not allowed in namespace \"dev\"";
        assert_eq!(denied.to_string(), all);
    }

    #[test]
    fn held_objects_are_told_with_their_numbers() {
        let holds = NamespaceHolds {
            namespace: "x".to_owned(),
            jobs: 2,
            allocs: 3,
            variables: 0,
        };
        let text = "namespace \"x\" has non-terminal jobs in regions: [global] (2)\n\
                    namespace \"x\" has non-terminal allocations in regions: [global] (3)";
        assert_eq!(holds.in_region("global"), text);
        let holds = NamespaceHolds { jobs: 0, ..holds };
        let text = "namespace \"x\" has non-terminal allocations (3)";
        assert_eq!(holds.to_string(), text);
    }
}
