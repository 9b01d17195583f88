//! What nodes say, and what operators want of them.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use protocol_model::DaemonLife;
use protocol_model::{AllocId, DrainSpec, Eligibility, Node, NodeId};
use protocol_wire::report::AllocReport;
use protocol_wire::v1::UpdateClass;
use serde::{Deserialize, Serialize};

use crate::record::{Digest, SessionEpoch};

/// See [`Command::NodeDrainSet`](super::Command::NodeDrainSet).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeDrainSet {
    /// The node.
    pub node: NodeId,
    /// How it is drained from now on; `None` ends its drain.
    pub drain: Option<DrainSpec>,
    /// Whether the node takes allocations again, where its drain ends.
    pub eligibility_after: Eligibility,
    /// The accessor of the caller's token; empty without access control.
    pub accessor_id: String,
    /// The operator's notes; `None` keeps those of the drain that is under way.
    pub meta: Option<BTreeMap<String, String>>,
}

/// Allocations of one draining node that are asked to leave: part of
/// [`Command::AllocsMigrate`](super::Command::AllocsMigrate).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DrainMarks {
    /// The node.
    pub node: NodeId,
    /// The drain that this was decided for: the index of its entry.
    pub drain_index: u64,
    /// How each of them leaves.
    pub marks: Vec<(AllocId, DrainMark)>,
}

/// How an allocation leaves a draining node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DrainMark {
    /// When its successor has a node. A system job's has none.
    Migrate,
    /// Without a successor.
    End,
    /// Now; its successor comes when there is room.
    ForceStop,
}

/// See [`Command::PendingExpired`](super::Command::PendingExpired).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unaccepted {
    /// Where they were placed.
    pub node: NodeId,
    /// The session that this was decided for.
    pub epoch: SessionEpoch,
    /// Those of which the node has said nothing.
    pub allocs: Vec<AllocId>,
}

/// See [`Command::NodeHello`]. The proposer has checked versions and the join token.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeHello {
    /// Who knocks.
    pub node: NodeId,
    /// SHA-256 of the node's secret.
    pub secret_hash: Digest,
    /// Drawn by the node once per series of attempts.
    pub nonce: [u8; 16],
    /// The epoch of its last session; 0 = none.
    pub last_epoch: SessionEpoch,
    /// Another boot means that nothing runs.
    pub boot_id: [u8; 16],
    /// Whether the node's daemon was restarted since its last session.
    pub daemon: DaemonLife,
    /// What it says about itself: needed from a node that is not registered.
    pub facts: Option<Arc<Node>>,
    /// What the proposer found out about its join token.
    pub join: JoinVerdict,
}

/// What the proposer found out about a join token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JoinVerdict {
    /// It may join as a new node.
    Allowed,
    /// It may not: only a node that is registered already is let in.
    Denied,
}

/// See [`Command::NodeSynced`].
#[derive(Clone, PartialEq, Debug)]
pub struct NodeSynced {
    /// Whose report.
    pub node: NodeId,
    /// Of which session.
    pub epoch: SessionEpoch,
    /// The index of the watch up to which the node had been told, in this incarnation; 0 where its
    /// history is another.
    pub watch_index: u64,
    /// Every allocation on the node whose state the control plane does not have yet.
    pub changed: Vec<AllocReport>,
    /// Every other allocation that the node reported.
    pub unchanged: Vec<AllocId>,
    /// What it says about itself, where that changed.
    pub facts: Option<Arc<Node>>,
}

/// One node's batch within [`Command::AllocUpdates`].
#[derive(Clone, PartialEq, Debug)]
pub struct NodeBatch {
    /// Whose.
    pub node: NodeId,
    /// Of which session.
    pub epoch: SessionEpoch,
    /// Urgent or typical.
    pub class: UpdateClass,
    /// The batch's number within its class and session.
    pub seq: u64,
    /// What changed.
    pub reports: Vec<AllocReport>,
}
