//! The limits of a task, as its cgroup has them.

use isolation::cgroup::{CgroupLimits, CpuMax, MemoryMax};
use noded_core::effect::StartTask;
use protocol_model::{AllocatedCpuResources, AllocatedMemoryResources};

use crate::config::Switch;
use crate::drivers::{AskedLimits, CpuCeiling};

const MIB: u64 = 1024 * 1024;
/// The usual period of a ceiling, that of container runtimes and of the kernel.
const CPU_PERIOD_US: u32 = 100_000;
/// The least that the kernel takes.
const CPU_QUOTA_US_MIN: u64 = 1000;

/// The node's and the driver's part of a task's limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitRules {
    /// Processes and threads, which protects the host.
    pub(super) pids_max: u32,
    /// Whether the driver limits memory: `raw_exec` does not, as in Nomad.
    pub(super) memory: bool,
    /// The wishes of the job's driver block.
    pub(super) asked: AskedLimits,
    /// Whether shares of the processors are ceilings where the job does not say it.
    pub(super) cpu_hard_limit: Switch,
    /// MHz that one core counts as; 0 where that is not known yet.
    pub(super) core_mhz: u64,
}

/// The limits of a task: the node's ceiling of processes, its share of the processors, its memory.
pub(super) fn limits(start: &StartTask, rules: &LimitRules) -> CgroupLimits {
    let mut limits = CgroupLimits {
        pids_max: Some(rules.pids_max),
        oom_group: rules.asked.oom_group,
        ..CgroupLimits::default()
    };
    let resources = &start.spec.alloc().allocated_resources;
    let Some(given) = resources.tasks.get(&start.run.task) else {
        return limits;
    };
    limits.cpu_weight = Some(cpu_weight(given.cpu.cpu_shares));
    limits.cpus.clone_from(&given.cpu.reserved_cores);
    let is_ceiling = match rules.asked.cpu {
        CpuCeiling::Never => Switch::Off,
        CpuCeiling::NodeDecides => rules.cpu_hard_limit,
        CpuCeiling::Asked(asked) => asked,
    };
    if is_ceiling == Switch::On {
        limits.cpu_max = cpu_max(&given.cpu, rules.core_mhz);
    }
    if rules.memory {
        limit_memory(&mut limits, &given.memory);
    }
    limits
}

/// A `memory_max` of 0 is the reserved memory, -1 is no limit: the task may use what the node has.
/// No `memory.high` below it: tasks have no swap, so one with nothing to give back would be delayed
/// for minutes before it is killed (measured on Linux 6.1: over 4 minutes for 10 MiB).
fn limit_memory(limits: &mut CgroupLimits, given: &AllocatedMemoryResources) {
    let bytes = |mib: i64| u64::try_from(mib).unwrap_or(0).saturating_mul(MIB);
    let (reserved, most) = (given.memory_mb, given.memory_max_mb);
    let ceiling = if most == 0 { reserved } else { most };
    limits.memory_max_bytes = (ceiling > 0).then(|| bytes(ceiling));
    limits.memory_low_bytes = (most != 0).then(|| bytes(reserved));
    limits.swap_max = (ceiling > 0).then_some(MemoryMax::Bytes(0));
}

/// The share as time per period. A task with cores of its own may use them up.
fn cpu_max(given: &AllocatedCpuResources, core_mhz: u64) -> Option<CpuMax> {
    let shares = u64::try_from(given.cpu_shares).ok()?;
    if shares == 0 || core_mhz == 0 || !given.reserved_cores.is_empty() {
        return None;
    }
    let quota = shares.saturating_mul(u64::from(CPU_PERIOD_US)) / core_mhz;
    Some(CpuMax {
        quota_us: u32::try_from(quota.max(CPU_QUOTA_US_MIN)).unwrap_or(u32::MAX),
        period_us: CPU_PERIOD_US,
    })
}

/// From shares (2 to 262144, as MHz are taken for) to `cpu.weight` (1 to 10000), as all container
/// runtimes convert.
fn cpu_weight(shares: i64) -> u16 {
    let shares = shares.clamp(2, 262_144);
    u16::try_from(1 + (shares - 2) * 9_999 / 262_142).unwrap_or(10_000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use noded_core::effect::TaskNetwork;
    use noded_core::{AllocSpec, RunEpoch, RunKey};
    use protocol_model::AllocId;

    use super::*;

    const RULES: LimitRules = LimitRules {
        pids_max: 100,
        memory: true,
        asked: AskedLimits {
            cpu: CpuCeiling::NodeDecides,
            oom_group: false,
        },
        cpu_hard_limit: Switch::Off,
        core_mhz: 2000,
    };

    #[test]
    fn every_task_has_a_ceiling_of_processes_and_its_driver_s_of_memory() {
        let of = |memory: bool, task: &str| {
            let rules = LimitRules { memory, ..RULES };
            let limits = limits(&start(task), &rules);
            (limits.pids_max, limits.memory_max_bytes)
        };
        assert_eq!(of(true, "main"), (Some(100), Some(64 * MIB)));
        assert_eq!(of(false, "main"), (Some(100), None));
        // Also one that has no resources of its own.
        assert_eq!(of(true, "other"), (Some(100), None));
    }

    /// A start of a task; `main` has resources.
    fn start(task: &str) -> StartTask {
        let job = serde_json::json!({
            "ID": "web", "TaskGroups": [{"Name": "group", "Tasks": [{"Name": "main"}]}],
        });
        let alloc = serde_json::json!({
            "ID": AllocId::from_u128(1), "Namespace": "default", "EvalID": uuid::Uuid::nil(),
            "Name": "web.group[0]", "NodeID": uuid::Uuid::nil(), "JobID": "web",
            "TaskGroup": "group", "SpecHash": protocol_model::SpecHash([1; 32]),
            "AllocatedResources": {"Tasks": {"main": {
                "Cpu": {"CpuShares": 500}, "Memory": {"MemoryMB": 64},
            }}},
        });
        let job = serde_json::from_value(job).unwrap();
        let spec = AllocSpec::new(serde_json::from_value(alloc).unwrap(), Arc::new(job)).unwrap();
        let spec = Arc::new(spec);
        StartTask {
            run: RunKey::new(spec.id(), task, RunEpoch(1)),
            spec,
            driver: "any".to_owned(),
            config: serde_json::Map::new(),
            user: String::new(),
            environment: BTreeMap::new(),
            network: TaskNetwork::default(),
            volume_mounts: Vec::new(),
            identities: Vec::new(),
        }
    }

    #[test]
    fn memory_max_is_the_limit_and_the_reserved_memory_is_protected() {
        let of = |memory_mb, memory_max_mb| {
            let mut limits = CgroupLimits::default();
            let given = AllocatedMemoryResources {
                memory_mb,
                memory_max_mb,
            };
            limit_memory(&mut limits, &given);
            let CgroupLimits {
                memory_max_bytes,
                memory_low_bytes,
                memory_high_bytes,
                swap_max,
                ..
            } = limits;
            let swap_is_limited = swap_max.is_some();
            (
                memory_max_bytes,
                memory_low_bytes,
                memory_high_bytes,
                swap_is_limited,
            )
        };
        let low = Some(64 * MIB);
        assert_eq!(of(64, 0), (low, None, None, true));
        assert_eq!(of(64, 200), (Some(200 * MIB), low, None, true));
        assert_eq!(of(64, -1), (None, low, None, false), "no limit");
    }

    #[test]
    fn a_share_is_a_ceiling_where_node_or_job_say_so() {
        let quota = |shares: i64, cores: &[u16], core_mhz: u64| {
            let given = AllocatedCpuResources {
                cpu_shares: shares,
                reserved_cores: cores.to_vec(),
            };
            cpu_max(&given, core_mhz).map(|max| max.quota_us)
        };
        assert_eq!(quota(500, &[], 2000), Some(25_000));
        assert_eq!(quota(4000, &[], 2000), Some(200_000));
        assert_eq!(quota(1, &[], 5000), Some(1000), "the kernel's least");
        assert_eq!(quota(2000, &[3], 2000), None, "it has the core");
        assert_eq!(quota(0, &[], 2000), None);
        assert_eq!(quota(500, &[], 0), None);

        let (on, off) = (Switch::On, Switch::Off);
        for (cpu, node, expected) in [
            (CpuCeiling::NodeDecides, off, false),
            (CpuCeiling::NodeDecides, on, true),
            (CpuCeiling::Asked(on), off, true),
            (CpuCeiling::Asked(off), on, false),
            (CpuCeiling::Never, on, false),
        ] {
            let rules = LimitRules {
                asked: AskedLimits {
                    cpu,
                    oom_group: true,
                },
                cpu_hard_limit: node,
                ..RULES
            };
            let limits = limits(&start("main"), &rules);
            assert_eq!(limits.cpu_max.is_some(), expected, "{cpu:?} {node:?}");
            assert!(limits.oom_group);
        }
        assert!(!limits(&start("main"), &RULES).oom_group);
    }

    #[test]
    fn weights_span_the_kernel_s_range() {
        assert_eq!(cpu_weight(0), 1);
        assert_eq!(cpu_weight(1024), 39);
        assert_eq!(cpu_weight(i64::MAX), 10_000);
    }
}
