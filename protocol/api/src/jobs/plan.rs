//! The effects of registering a job, before it is registered.

use std::collections::BTreeMap;

use protocol_model::{
    AllocMetric, AllocationListStub, Evaluation, NodeId, UnixNanos, nullable, rfc3339,
};
use serde::{Deserialize, Serialize};

use super::diff::JobDiff;

/// The answer of [`super::PlanJob`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobPlan {
    /// Never null: Nomad's command line ends with a panic then.
    #[serde(deserialize_with = "nullable::or_default")]
    pub annotations: Annotations,
    /// Why allocations of a group would not be placed.
    #[serde(rename = "FailedTGAllocs", with = "nullable")]
    pub failed: BTreeMap<String, AllocMetric>,
    /// When a periodic job would be launched first; `null` where it never is.
    #[serde(with = "rfc3339")]
    pub next_periodic_launch: Option<UnixNanos>,
    /// The index of the job that is registered; 0 where there is none.
    pub job_modify_index: u64,
    /// The evaluations that would go on.
    #[serde(with = "nullable")]
    pub created_evals: Vec<Evaluation>,
    /// By group: what rules nodes out, and which come nearest. (Not in Nomad.)
    #[serde(with = "nullable")]
    pub explanation: BTreeMap<String, GroupExplanation>,
    /// Where the request asks for it.
    pub diff: Option<JobDiff>,
    /// The blocks of the job without effect in this release, for people.
    pub warnings: String,
    pub index: u64,
}

/// Why a group is placed where it is, or is not.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GroupExplanation {
    /// Readiness, pool and datacenter first, then by number of nodes. A node counts once.
    #[serde(deserialize_with = "nullable::or_default")]
    pub filtered: Vec<FilteredNodes>,
    /// Of a group that is not placed whole: the nodes that lack least, at most three.
    #[serde(deserialize_with = "nullable::or_default")]
    pub near_misses: Vec<NearMiss>,
}

/// How many nodes one reason rules out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct FilteredNodes {
    pub reason: String,
    pub nodes: u64,
}

/// A node on which another allocation finds no place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NearMiss {
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    pub node_name: String,
    /// All that is missing, for people: `memory 256 MiB short of 512`.
    pub missing: Vec<String>,
}

/// The effects on allocations.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// By group.
    #[serde(
        rename = "DesiredTGUpdates",
        deserialize_with = "nullable::deserialize"
    )]
    pub groups: BTreeMap<String, DesiredUpdates>,
    /// Allocations that would make room; `null` where none would.
    #[serde(rename = "PreemptedAllocs")]
    pub preempted: Option<Vec<AllocationListStub>>,
}

/// How many allocations of a group would be treated how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DesiredUpdates {
    pub ignore: u64,
    pub place: u64,
    pub migrate: u64,
    pub stop: u64,
    pub in_place_update: u64,
    pub destructive_update: u64,
    pub canary: u64,
    pub preemptions: u64,
    pub disconnect: u64,
    pub reconnect: u64,
    pub reschedule_now: u64,
    pub reschedule_later: u64,
}
