//! Resources as older clients read them, beside the newer fields. Nomad's own command line ends
//! with a panic where they are missing: `node status ID` and the resources in `alloc status`.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{
    AllocatedResources, AllocatedTaskResources, Allocation, NetworkResource, Node, nullable,
};
use serde::Serialize;

/// What something has, needs or was given. Nothing is left out: clients do not check.
#[derive(Serialize, PartialEq, Debug, Default)]
#[serde(rename_all = "PascalCase")]
struct Resources {
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
}

/// A node with `Resources` and `Reserved`.
#[derive(Serialize, Debug)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NodeShown {
    #[serde(flatten)]
    node: Arc<Node>,
    resources: Resources,
    reserved: Resources,
}

impl NodeShown {
    pub(super) fn new(node: Arc<Node>) -> Self {
        let (has, kept) = (&node.node_resources, &node.reserved_resources);
        let resources = Resources {
            cpu: has.cpu.cpu_shares,
            memory_mb: has.memory.memory_mb,
            disk_mb: has.disk.disk_mb,
            networks: has.networks.clone(),
            ..Resources::default()
        };
        let reserved = Resources {
            cpu: kept.cpu.cpu_shares,
            memory_mb: kept.memory.memory_mb,
            disk_mb: kept.disk.disk_mb,
            ..Resources::default()
        };
        Self {
            node,
            resources,
            reserved,
        }
    }
}

/// An allocation with `Resources` and `TaskResources`.
#[derive(Serialize, Debug)]
#[serde(rename_all = "PascalCase")]
pub(super) struct AllocShown {
    #[serde(flatten)]
    alloc: Arc<Allocation>,
    resources: Resources,
    task_resources: BTreeMap<String, Resources>,
}

impl AllocShown {
    pub(super) fn new(alloc: Arc<Allocation>) -> Self {
        let AllocatedResources { tasks, shared } = &*alloc.allocated_resources;
        let tasks = tasks.iter();
        let task_resources: BTreeMap<String, Resources> = tasks
            .map(|(name, given)| (name.clone(), of_task(given)))
            .collect();
        let mut resources = Resources {
            disk_mb: shared.disk_mb,
            networks: shared.networks.clone(),
            ..Resources::default()
        };
        for task in task_resources.values() {
            resources.cpu = resources.cpu.saturating_add(task.cpu);
            resources.cores = resources.cores.saturating_add(task.cores);
            resources.memory_mb = resources.memory_mb.saturating_add(task.memory_mb);
            resources.memory_max_mb = resources.memory_max_mb.saturating_add(task.memory_max_mb);
        }
        Self {
            alloc,
            resources,
            task_resources,
        }
    }
}

fn of_task(given: &AllocatedTaskResources) -> Resources {
    Resources {
        cpu: given.cpu.cpu_shares,
        cores: given.cpu.reserved_cores.len(),
        memory_mb: given.memory.memory_mb,
        memory_max_mb: given.memory.memory_max_mb,
        networks: given.networks.clone(),
        ..Resources::default()
    }
}

#[cfg(test)]
mod tests {
    use protocol_model::NodeId;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_node_tells_what_it_has_and_keeps_in_the_older_form_too() {
        let mut node = Node::new(NodeId::from_u128(7), "node-1", "dc1");
        node.node_resources.cpu.cpu_shares = 5000;
        node.node_resources.memory.memory_mb = 4096;
        node.node_resources.disk.disk_mb = 9000;
        node.reserved_resources.memory.memory_mb = 96;
        let shown = serde_json::to_value(NodeShown::new(Arc::new(node))).expect("JSON");
        assert_eq!(shown["Name"], "node-1");
        assert_eq!(shown["NodeResources"]["Cpu"]["CpuShares"], 5000);
        let older = |from: &Value| json!([from["CPU"], from["MemoryMB"], from["DiskMB"]]);
        assert_eq!(older(&shown["Resources"]), json!([5000, 4096, 9000]));
        assert_eq!(older(&shown["Reserved"]), json!([0, 96, 0]));
    }
}
