//! Why a placement went where it went, or nowhere: the explanation that `plan` and `alloc status`
//! show.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::ids::NodeId;
use crate::nullable;

/// What the scheduler saw while it placed (or failed to place) one allocation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocMetric {
    /// Nodes that were looked at.
    pub nodes_evaluated: u64,
    /// Nodes that a constraint ruled out.
    pub nodes_filtered: u64,
    /// Nodes in the job's node pool.
    pub nodes_in_pool: u64,
    /// Ready nodes per datacenter.
    #[serde(with = "nullable")]
    pub nodes_available: BTreeMap<String, u64>,
    /// Filtered nodes per node class.
    #[serde(with = "nullable")]
    pub class_filtered: BTreeMap<String, u64>,
    /// Filtered nodes per constraint, in words.
    #[serde(with = "nullable")]
    pub constraint_filtered: BTreeMap<String, u64>,
    /// Nodes that passed every constraint and had no room.
    pub nodes_exhausted: u64,
    /// Exhausted nodes per node class.
    #[serde(with = "nullable")]
    pub class_exhausted: BTreeMap<String, u64>,
    /// Exhausted nodes per dimension: `cpu`, `memory`, `disk`, `network: port ...`.
    #[serde(with = "nullable")]
    pub dimension_exhausted: BTreeMap<String, u64>,
    /// Quotas that were used up.
    #[serde(with = "nullable")]
    pub quota_exhausted: Vec<String>,
    /// Per task, how much was asked for of the dimensions that were exhausted, over all placements
    /// that failed.
    #[serde(with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub resources_exhausted: BTreeMap<String, ExhaustedResources>,
    /// The best-scored nodes, best first.
    #[serde(with = "nullable")]
    pub score_meta_data: Vec<NodeScoreMeta>,
    /// How long the scheduler took for this placement.
    #[serde(with = "duration::ns")]
    pub allocation_time: Duration,
    /// Further placements of the same group that failed for the same reasons.
    pub coalesced_failures: u64,
}

/// The amounts of exhausted dimensions that a task's failed placements asked for; 0 for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExhaustedResources {
    /// MHz.
    #[serde(rename = "CPU")]
    pub cpu: u64,
    /// MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: u64,
}

/// One node's score.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeScoreMeta {
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// Each component's score: `binpack`, `node-affinity`, `job-anti-affinity`...
    #[serde(default, with = "nullable")]
    pub scores: BTreeMap<String, f64>,
    /// The mean of the components: what decides.
    pub norm_score: f64,
}
