//! Resources as older clients read them, beside the newer fields. Nomad's own command line ends
//! with a panic where they are missing: `node status ID` and the resources in `alloc status`.

use std::collections::BTreeMap;

use protocol_model::{AllocatedResources, AllocatedTaskResources, NetworkResource, Node, nullable};
use serde::Serialize;

/// What something has, needs or was given. Nothing is left out: clients do not check.
#[derive(Serialize, PartialEq, Debug, Default)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Resources {
    /// MHz.
    #[serde(rename = "CPU")]
    cpu: i64,
    cores: usize,
    #[serde(rename = "MemoryMB")]
    memory_mb: i64,
    #[serde(rename = "MemoryMaxMB")]
    memory_max_mb: i64,
    #[serde(rename = "DiskMB")]
    disk_mb: i64,
    #[serde(rename = "IOPS")]
    iops: i64,
    #[serde(with = "nullable")]
    networks: Vec<NetworkResource>,
    /// Null: devices are in the newer fields only.
    devices: (),
}

impl Resources {
    /// What a node has.
    pub(super) fn of_node(node: &Node) -> Self {
        let has = &node.node_resources;
        Self {
            cpu: has.cpu.cpu_shares,
            memory_mb: has.memory.memory_mb,
            disk_mb: has.disk.disk_mb,
            networks: has.networks.clone(),
            ..Self::default()
        }
    }

    /// What of a node is not for allocations.
    pub(super) fn reserved(node: &Node) -> Self {
        let kept = &node.reserved_resources;
        Self {
            cpu: kept.cpu.cpu_shares,
            memory_mb: kept.memory.memory_mb,
            disk_mb: kept.disk.disk_mb,
            ..Self::default()
        }
    }

    /// What each task was given.
    pub(super) fn of_tasks(given: &AllocatedResources) -> BTreeMap<&str, Self> {
        let tasks = given.tasks.iter();
        tasks
            .map(|(name, given)| (name.as_str(), Self::of_task(given)))
            .collect()
    }

    fn of_task(given: &AllocatedTaskResources) -> Self {
        Self {
            cpu: given.cpu.cpu_shares,
            cores: given.cpu.reserved_cores.len(),
            memory_mb: given.memory.memory_mb,
            memory_max_mb: given.memory.memory_max_mb,
            networks: given.networks.clone(),
            ..Self::default()
        }
    }

    /// What a group was given as a whole, beside its tasks.
    pub(super) fn shared(given: &AllocatedResources) -> Self {
        Self {
            disk_mb: given.shared.disk_mb,
            networks: given.shared.networks.clone(),
            ..Self::default()
        }
    }

    /// What a group and its tasks were given together.
    pub(super) fn total(given: &AllocatedResources) -> Self {
        let mut total = Self::shared(given);
        for task in given.tasks.values().map(Self::of_task) {
            total.cpu = total.cpu.saturating_add(task.cpu);
            total.cores = total.cores.saturating_add(task.cores);
            total.memory_mb = total.memory_mb.saturating_add(task.memory_mb);
            total.memory_max_mb = match (total.memory_max_mb, task.memory_max_mb) {
                // No limit at all.
                (-1, _) | (_, -1) => -1,
                (sum, of_task) => sum.saturating_add(of_task),
            };
        }
        total
    }
}
