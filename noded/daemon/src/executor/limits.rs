//! What a task may use, as its cgroup has it.

use isolation::cgroup::{CgroupLimits, MemoryMax};
use noded_core::effect::StartTask;
use protocol_model::AllocatedMemoryResources;

const MIB: u64 = 1024 * 1024;

/// Every task has the node's ceiling of processes, which protects the host, and its share of the
/// processors; its memory is limited where its driver does that: `raw_exec` does not, as users of
/// Nomad know it.
pub(super) fn limits(start: &StartTask, pids_max: u32, memory: bool) -> CgroupLimits {
    let mut limits = CgroupLimits {
        pids_max: Some(pids_max),
        ..CgroupLimits::default()
    };
    let resources = &start.spec.alloc().allocated_resources;
    let Some(given) = resources.tasks.get(&start.run.task) else {
        return limits;
    };
    limits.cpu_weight = Some(cpu_weight(given.cpu.cpu_shares));
    limits.cpus.clone_from(&given.cpu.reserved_cores);
    if memory {
        limit_memory(&mut limits, &given.memory);
    }
    limits
}

/// A `memory_max` of 0 is the reserved memory, -1 is no limit: the task may use what the node has.
fn limit_memory(limits: &mut CgroupLimits, given: &AllocatedMemoryResources) {
    let bytes = |mib: i64| u64::try_from(mib).unwrap_or(0).saturating_mul(MIB);
    let (reserved, most) = (given.memory_mb, given.memory_max_mb);
    let ceiling = if most == 0 { reserved } else { most };
    limits.memory_max_bytes = (ceiling > 0).then(|| bytes(ceiling));
    limits.memory_low_bytes = (most != 0).then(|| bytes(reserved));
    limits.swap_max = (ceiling > 0).then_some(MemoryMax::Bytes(0));
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

    #[test]
    fn every_task_has_the_node_s_ceiling_of_processes_and_one_of_memory_where_its_driver_has_it() {
        let job = serde_json::json!({
            "ID": "web", "TaskGroups": [{"Name": "group", "Tasks": [{"Name": "main"}]}],
        });
        let alloc = serde_json::json!({
            "ID": AllocId::from_u128(1), "Namespace": "default", "EvalID": uuid::Uuid::nil(),
            "Name": "web.group[0]", "NodeID": uuid::Uuid::nil(), "JobID": "web",
            "TaskGroup": "group", "SpecHash": protocol_model::SpecHash([1; 32]),
            "AllocatedResources": {"Tasks": {"main": {"Memory": {"MemoryMB": 64}}}},
        });
        let job = serde_json::from_value(job).unwrap();
        let spec = AllocSpec::new(serde_json::from_value(alloc).unwrap(), Arc::new(job)).unwrap();
        let spec = Arc::new(spec);
        let of = |memory: bool, task: &str| {
            let start = StartTask {
                run: RunKey::new(spec.id(), task, RunEpoch(1)),
                spec: Arc::clone(&spec),
                driver: "any".to_owned(),
                config: serde_json::Map::new(),
                user: String::new(),
                environment: BTreeMap::new(),
                network: TaskNetwork::default(),
            };
            let limits = limits(&start, 100, memory);
            (limits.pids_max, limits.memory_max_bytes)
        };
        assert_eq!(of(true, "main"), (Some(100), Some(64 * MIB)));
        assert_eq!(of(false, "main"), (Some(100), None));
        // Also one that has no resources of its own.
        assert_eq!(of(true, "other"), (Some(100), None));
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
                swap_max,
                ..
            } = limits;
            (memory_max_bytes, memory_low_bytes, swap_max.is_some())
        };
        let (low, high) = (Some(64 * MIB), Some(256 * MIB));
        assert_eq!(of(64, 0), (low, None, true));
        assert_eq!(of(64, 256), (high, low, true));
        assert_eq!(of(64, -1), (None, low, false), "no limit");
    }

    #[test]
    fn weights_span_the_kernel_s_range() {
        assert_eq!(cpu_weight(0), 1);
        assert_eq!(cpu_weight(1024), 39);
        assert_eq!(cpu_weight(i64::MAX), 10_000);
    }
}
