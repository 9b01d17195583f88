//! What the leader's parts and the gateway are told of a command.

use std::sync::Arc;

use protocol_model::{
    AllocId, DeploymentId, EvalId, EvalStatus, Evaluation, JobKey, NodeId, NodeStatus, SpecHash,
    UnixNanos,
};

use crate::record::SessionEpoch;
use crate::variable::VariableKey;

/// What changed, for the parts that only the leader runs and for the gateway.
#[derive(Clone, PartialEq, Debug)]
pub enum Signal {
    /// An evaluation waits for a scheduler (perhaps not before its `wait_until`).
    EvalPending(Arc<Evaluation>),
    /// An evaluation waits for capacity.
    EvalBlocked(Arc<Evaluation>),
    /// An evaluation is over.
    EvalEnded {
        /// Which.
        id: EvalId,
        /// Of which job.
        job: JobKey,
        /// How.
        status: EvalStatus,
    },
    /// An evaluation was deleted while it was open: nothing schedules it any more.
    EvalRemoved(EvalId),
    /// A job was registered, changed its version or was stopped.
    JobChanged(JobKey),
    /// The launch record of a periodic job moved.
    LaunchRecorded(JobKey),
    /// A job was forgotten.
    JobRemoved(JobKey),
    /// A node has a new session and owes its report.
    NodeSessionStarted {
        /// The node.
        node: NodeId,
        /// The session.
        epoch: SessionEpoch,
    },
    /// A node's session was taken away: its report was overdue, and it has to knock anew.
    NodeSessionClosed(NodeId),
    /// A node changed its status.
    NodeStatusChanged {
        /// The node.
        node: NodeId,
        /// The session, 0 where there is none.
        epoch: SessionEpoch,
        /// From.
        from: NodeStatus,
        /// To.
        to: NodeStatus,
    },
    /// A node's facts, eligibility or drain changed.
    NodeChanged(NodeId),
    /// A node was forgotten.
    NodeRemoved(NodeId),
    /// A node has more room than before, or may be placed on again: blocked evaluations that its
    /// class can help should be tried.
    CapacityFreed {
        /// The node.
        node: NodeId,
        /// Its computed class.
        class: Arc<str>,
        /// Whoever looked before saw this very room; zero where it is new to everybody.
        since: UnixNanos,
    },
    /// What is wanted of these allocations of a node changed: its watch has a delta to send.
    AllocsDesired {
        /// The node.
        node: NodeId,
        /// Which, removed ones included.
        allocs: Vec<AllocId>,
    },
    /// An allocation's client status or health changed.
    AllocReported {
        /// Which.
        alloc: AllocId,
        /// Of which job.
        job: JobKey,
        /// In which deployment.
        deployment: Option<DeploymentId>,
    },
    /// A deployment was made or changed.
    DeploymentChanged(DeploymentId),
    /// A deployment was removed.
    DeploymentRemoved(DeploymentId),
    /// A specification is referred to no more.
    SpecCollected(SpecHash),
    /// The cluster's incarnation changed: every watch starts over.
    IncarnationChanged,
    /// The scheduler's configuration changed.
    SchedulerConfigChanged,
    /// Tokens, policies or roles changed: the rights of callers may be others.
    AclChanged,
    /// One-time tokens were made or removed.
    OneTimeTokensChanged,
    /// Root keys changed.
    RootKeysChanged,
    /// A lock on this variable was acquired, released, delayed or removed.
    VariableLockChanged(VariableKey),
}

impl Signal {
    /// The node whose session has news by it: its watch and its gateway have to look.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::AllocsDesired { node, .. }
            | Self::NodeSessionStarted { node, .. }
            | Self::NodeSessionClosed(node)
            | Self::NodeStatusChanged { node, .. }
            | Self::NodeRemoved(node) => Some(*node),
            // The scheduler's business, not the session's.
            Self::NodeChanged(_) | Self::CapacityFreed { .. } => None,
            Self::EvalPending(_)
            | Self::EvalBlocked(_)
            | Self::EvalEnded { .. }
            | Self::EvalRemoved(_)
            | Self::JobChanged(_)
            | Self::LaunchRecorded(_)
            | Self::JobRemoved(_)
            | Self::AllocReported { .. }
            | Self::DeploymentChanged(_)
            | Self::DeploymentRemoved(_)
            | Self::SpecCollected(_)
            | Self::IncarnationChanged
            | Self::SchedulerConfigChanged
            | Self::AclChanged
            | Self::OneTimeTokensChanged
            | Self::RootKeysChanged
            | Self::VariableLockChanged(_) => None,
        }
    }
}
