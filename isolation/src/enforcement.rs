//! What this host can enforce: facts for the node's fingerprint, and the reasons where it cannot.

use std::fs;
use std::path::{Path, PathBuf};

use protocol_error_chain::chain;

use crate::capability::CapabilitySet;
use crate::cgroup::{ControllerSet, Mount, find_mount};
use crate::sys;

/// What this host can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforcement {
    /// Limits on processors, memory and processes.
    pub cgroup: CgroupMode,
    /// Whether system calls can be refused.
    pub seccomp: bool,
    /// Version of landlock, 0 where there is none.
    pub landlock_abi: u32,
    /// How many user namespaces one user may have; 0 where they are off.
    pub user_namespaces_max: u64,
    /// Capabilities that tasks can be given at most.
    pub capabilities: CapabilitySet,
    /// Whether this process is root, without which no sandbox can be made.
    pub root: bool,
}

/// What cgroups can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CgroupMode {
    /// Every limit.
    Full {
        /// Where cgroup v2 is mounted.
        mount: PathBuf,
        /// What it has.
        controllers: ControllerSet,
    },
    /// Tasks are tracked, frozen and killed, but some limits are not enforced: a hybrid host whose
    /// controllers are bound to version 1, or a subtree without delegation.
    Hybrid {
        /// Where cgroup v2 is mounted.
        mount: PathBuf,
        /// What it has.
        controllers: ControllerSet,
        /// What is wanted and missing.
        missing: ControllerSet,
        /// Why, and what to do about it.
        reason: String,
    },
    /// Nothing: no task can be run.
    None {
        /// Why.
        reason: String,
    },
}

/// Finds out what this host can enforce for tasks below the cgroup `base` (relative to the mount,
/// not necessarily existing yet). Reads files only.
#[must_use]
pub fn enforcement(base: &Path) -> Enforcement {
    let user_namespaces_max = fs::read_to_string("/proc/sys/user/max_user_namespaces")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    Enforcement {
        cgroup: cgroup_mode(base),
        seccomp: sys::seccomp_action_available(),
        landlock_abi: sys::landlock_abi(),
        user_namespaces_max,
        capabilities: CapabilitySet::bounding().unwrap_or_default(),
        root: rustix::process::geteuid().is_root(),
    }
}

impl CgroupMode {
    /// A word for a node attribute.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Full { .. } => "full",
            Self::Hybrid { .. } => "hybrid",
            Self::None { .. } => "none",
        }
    }

    /// Why not everything is enforced; `None` when everything is.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Full { .. } => None,
            Self::Hybrid { reason, .. } | Self::None { reason } => Some(reason),
        }
    }
}

fn cgroup_mode(base: &Path) -> CgroupMode {
    let mount = match find_mount() {
        Ok(mount) => mount,
        Err(error) => {
            return CgroupMode::None {
                reason: chain(&error),
            };
        }
    };
    // What the nearest existing level has is what can be handed down from there.
    let text = base.ancestors().find_map(|level| {
        fs::read_to_string(mount.path.join(level).join("cgroup.controllers")).ok()
    });
    match text {
        Some(text) => judge(mount, ControllerSet::parse(&text)),
        None => CgroupMode::None {
            reason: format!(
                "cannot read cgroup.controllers below {}",
                mount.path.display()
            ),
        },
    }
}

fn judge(mount: Mount, controllers: ControllerSet) -> CgroupMode {
    let missing = ControllerSet::wanted().difference(&controllers);
    let Mount {
        path,
        version_1_beside,
    } = mount;
    if missing.is_empty() {
        return CgroupMode::Full {
            mount: path,
            controllers,
        };
    }
    let cause = if version_1_beside {
        "they are bound to cgroup version 1; boot with systemd.unified_cgroup_hierarchy=1"
    } else {
        "they are not delegated; set Delegate=yes on the unit, or enable them in \
         cgroup.subtree_control"
    };
    let reason = format!("limits that need {missing} are not enforced: {cause}");
    CgroupMode::Hybrid {
        mount: path,
        controllers,
        missing,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(version_1_beside: bool) -> Mount {
        Mount {
            path: PathBuf::from("/cg"),
            version_1_beside,
        }
    }

    #[test]
    fn all_wanted_controllers_make_a_full_host() {
        let mode = judge(
            mount(false),
            ControllerSet::parse("cpuset cpu io memory pids"),
        );
        assert_eq!((mode.name(), mode.reason()), ("full", None));
    }

    #[test]
    fn a_hybrid_host_says_what_is_missing_and_what_to_do() {
        let mode = judge(mount(true), ControllerSet::parse("hugetlb"));
        assert_eq!(mode.name(), "hybrid");
        assert_eq!(
            mode.reason(),
            Some(
                "limits that need cpu, memory, pids are not enforced: they are bound to cgroup \
                 version 1; boot with systemd.unified_cgroup_hierarchy=1"
            )
        );
        let undelegated = judge(mount(false), ControllerSet::parse("pids"));
        assert!(
            undelegated
                .reason()
                .is_some_and(|reason| reason.contains("Delegate=yes"))
        );
    }
}
