//! Namespaces: what jobs of one may use, and which jobs one takes.

use std::collections::BTreeMap;

use protocol_model::{Job, NetworkMode};
use serde::{Deserialize, Serialize};

use crate::applied::JobDenied;
use crate::node_pool::POOL_DEFAULT;
use crate::variable::VARIABLES_BYTES_MAX_DEFAULT;

/// The longest name of a namespace, in bytes.
pub const NAMESPACE_NAME_LEN_MAX: usize = 128;

/// The network mode of a group that names none: it runs in the network of its host.
const MODE_DEFAULT: &str = "host";

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its purpose, for people.
    pub description: String,
    /// Its operator's own key-value pairs.
    #[serde(default)]
    pub meta: BTreeMap<String, String>,
    /// The drivers and network modes that its jobs may use.
    #[serde(default, skip_serializing_if = "NamespaceCapabilities::is_open")]
    pub capabilities: NamespaceCapabilities,
    /// The node pools that its jobs may use; `None` = all of them, and jobs that name none are in
    /// the pool `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool_configuration: Option<NamespaceNodePools>,
    /// How many sealed bytes its variables may take; 0 = the default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub variables_bytes_max: u64,
    /// The log index that made it.
    #[serde(default)]
    pub create_index: u64,
    /// The log index that last changed it.
    #[serde(default)]
    pub modify_index: u64,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The drivers and network modes that jobs of a namespace may use. An empty list of enabled ones
/// enables all; one that is disabled is not allowed even where it is enabled.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceCapabilities {
    /// Drivers that tasks may use; empty = all.
    pub enabled_task_drivers: Vec<String>,
    /// Drivers that no task may use.
    pub disabled_task_drivers: Vec<String>,
    /// Modes that networks of groups may have; empty = all.
    pub enabled_network_modes: Vec<String>,
    /// Modes that no network of a group may have.
    pub disabled_network_modes: Vec<String>,
}

/// The node pools of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceNodePools {
    /// The pool of jobs that name none; empty = `default`. Jobs may always name it, unless it is
    /// denied.
    pub default: String,
    /// Patterns of the pools that jobs may name beside it; `*` stands for any characters. `None` =
    /// all pools.
    pub allowed: Option<Vec<String>>,
    /// Patterns of the pools that jobs may not be in.
    pub denied: Vec<String>,
}

impl NamespaceCapabilities {
    /// Whether everything is allowed.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

impl NamespaceNodePools {
    /// The pool of jobs that name none.
    pub fn default_pool(&self) -> &str {
        match self.default.as_str() {
            "" => POOL_DEFAULT,
            named => named,
        }
    }

    /// Whether jobs may be in the pool of this name. Denied patterns come first.
    pub fn allows(&self, pool: &str) -> bool {
        let matches = |patterns: &[String]| patterns.iter().any(|it| glob_matches(it, pool));
        if matches(&self.denied) {
            return false;
        }
        let allowed = self.allowed.as_deref();
        pool == self.default_pool() || allowed.is_none_or(matches)
    }
}

impl Namespace {
    /// Whether a namespace may have this name: `^[a-zA-Z0-9-]{1,128}$`.
    pub fn is_name(name: &str) -> bool {
        let allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
        !name.is_empty() && name.len() <= NAMESPACE_NAME_LEN_MAX && name.bytes().all(allowed)
    }

    /// The pool of its jobs that name none.
    pub fn default_pool(&self) -> &str {
        let pools = self.node_pool_configuration.as_ref();
        pools.map_or(POOL_DEFAULT, NamespaceNodePools::default_pool)
    }

    /// How many sealed bytes its variables may take.
    pub fn variables_bytes_limit(&self) -> u64 {
        match self.variables_bytes_max {
            0 => VARIABLES_BYTES_MAX_DEFAULT,
            max => max,
        }
    }

    /// Whether a field is set that servers of command level 2 drop.
    pub(crate) fn restricts(&self) -> bool {
        let Self {
            name: _,
            description: _,
            meta: _,
            capabilities,
            node_pool_configuration,
            variables_bytes_max,
            create_index: _,
            modify_index: _,
        } = self;
        !capabilities.is_open() || node_pool_configuration.is_some() || *variables_bytes_max != 0
    }

    /// Whether the job may be in this namespace. Each name is told once, in the job's order.
    ///
    /// # Errors
    /// Everything that the job uses and may not.
    pub fn check(&self, job: &Job) -> Result<(), JobDenied> {
        let NamespaceCapabilities {
            enabled_task_drivers,
            disabled_task_drivers,
            enabled_network_modes,
            disabled_network_modes,
        } = &self.capabilities;
        let tasks = job.task_groups.iter().flat_map(|group| &group.tasks);
        let drivers = tasks.map(|task| task.driver.as_str());
        let modes = job.task_groups.iter().flat_map(|group| {
            let modes = group.networks.iter().map(|network| match network.mode() {
                NetworkMode::Host => MODE_DEFAULT,
                _ => network.mode.as_str(),
            });
            let unnamed = group.networks.is_empty().then_some(MODE_DEFAULT);
            modes.chain(unnamed)
        });
        let pools = self.node_pool_configuration.as_ref();
        let pool = pools.filter(|pools| !job.node_pool.is_empty() && !pools.allows(&job.node_pool));
        let denied = JobDenied {
            namespace: self.name.clone(),
            drivers: not_allowed(drivers, enabled_task_drivers, disabled_task_drivers),
            network_modes: not_allowed(modes, enabled_network_modes, disabled_network_modes),
            node_pool: pool.map(|_| job.node_pool.clone()),
        };
        match denied.is_empty() {
            true => Ok(()),
            false => Err(denied),
        }
    }
}

/// The used names that are not enabled, or disabled; each of them once.
fn not_allowed<'a>(
    used: impl Iterator<Item = &'a str>,
    enabled: &[String],
    disabled: &[String],
) -> Vec<String> {
    let mut denied: Vec<String> = Vec::new();
    for name in used {
        let is = |other: &String| other == name;
        let allowed = (enabled.is_empty() || enabled.iter().any(is)) && !disabled.iter().any(is);
        if !allowed && !denied.iter().any(is) {
            denied.push(name.to_owned());
        }
    }
    denied
}

/// Whether `text` matches a pattern in which `*` stands for any characters, none included. Takes
/// time in proportion to the pieces of the pattern times the text.
fn glob_matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_star_stands_for_any_characters() {
        let cases = [
            ("gpu", "gpu", true),
            ("gpu", "gpu-a", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("gpu-*", "gpu-", true),
            ("gpu-*", "gpu", false),
            ("*-prod", "eu-prod", true),
            ("*-prod", "eu-prod-b", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("**", "x", true),
        ];
        for (pattern, text, matches) in cases {
            assert_eq!(glob_matches(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn denied_pools_win_and_the_default_is_allowed() {
        let pools = NamespaceNodePools {
            default: "prod".to_owned(),
            allowed: Some(vec!["batch-*".to_owned()]),
            denied: vec!["batch-old".to_owned()],
        };
        let allowed = ["prod", "batch-new", "batch-old", "default"].map(|it| pools.allows(it));
        assert_eq!(allowed, [true, true, false, false]);
        let only_default = NamespaceNodePools {
            allowed: Some(Vec::new()),
            ..NamespaceNodePools::default()
        };
        assert!(only_default.allows("default") && !only_default.allows("prod"));
    }

    #[test]
    fn names_are_letters_digits_and_hyphens() {
        let longest = "a".repeat(NAMESPACE_NAME_LEN_MAX);
        for name in ["a", "Team-7", longest.as_str()] {
            assert!(Namespace::is_name(name), "{name}");
        }
        let too_long = "a".repeat(NAMESPACE_NAME_LEN_MAX + 1);
        for name in ["", "*", "a b", "a_b", "é", "a\n", too_long.as_str()] {
            assert!(!Namespace::is_name(name), "{name}");
        }
    }
}
