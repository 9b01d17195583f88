//! What can be asked of the replicated state: one command is one log entry is one transition, the
//! evaluations that it causes included.
//!
//! Everything that is not a function of the state arrives here: the time, the seed of the ids that
//! `apply` may need, hashes of secrets. Whoever proposes a command fills them in.

mod access;
mod children;
mod evals;
mod identity;
mod jobs;
mod keyring;
mod namespaces;
mod networks;
mod nodes;
mod periodic;
mod plan;
mod scale;
mod tag;
mod variables;

use std::sync::Arc;

use bytes::Bytes;
use protocol_model::{
    AllocId, DeploymentId, DesiredTransition, Eligibility, EvalId, Evaluation, Incarnation, JobKey,
    Node, NodeId, UnixNanos,
};
use serde::{Deserialize, Serialize};

pub use access::*;
pub use children::*;
pub use evals::*;
pub use identity::*;
pub use jobs::*;
pub use keyring::*;
pub use namespaces::DeletionRule;
pub use networks::NETWORKS_LEVEL;
pub use nodes::*;
pub use periodic::*;
pub use plan::*;
pub use scale::*;
pub use tag::*;
pub use variables::*;

use crate::access::AclToken;
use crate::namespace::Namespace;
use crate::node_pool::NodePool;
use crate::record::{Digest, SchedulerConfig, SessionEpoch};
use crate::restore::ClientTokens;

/// A command as it is written into the log.
#[derive(Clone, PartialEq, Debug)]
pub struct Stamped {
    /// The proposer's clock. The state's own time never goes back: it becomes the larger of both.
    pub now: UnixNanos,
    /// Random bytes from which `apply` derives the ids of what it makes itself.
    pub seed: [u8; 16],
    /// What is asked.
    pub command: Command,
}

/// One transition of the replicated state.
///
/// Its serde form is how cold commands are written into the log; hot ones (`skip`) have messages of
/// their own there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "a command is made once and moved a few times; the large ones are boxed already"
)]
pub enum Command {
    /// Nothing: a new leader's barrier.
    #[serde(skip)]
    Barrier,
    /// The first entry of a cluster: fixes its incarnation. Refused when there is one already.
    ClusterInit { incarnation: Incarnation },
    /// An operator's checkpoint will come, in pieces, and begin this incarnation. Refused while
    /// another one is on its way.
    RestoreBegin {
        incarnation: Incarnation,
        /// How long it is.
        bytes: u64,
        /// SHA-256 of the whole.
        sha256: Digest,
        /// Whether it brings client tokens back.
        #[serde(default, skip_serializing_if = "ClientTokens::is_default")]
        client_tokens: ClientTokens,
    },
    /// The next piece of it. A piece that came already is no news.
    #[serde(skip)]
    RestoreChunk {
        incarnation: Incarnation,
        offset: u64,
        bytes: Bytes,
    },
    /// All of it has come: it takes the state's place, and another history begins.
    RestoreCommit { incarnation: Incarnation },
    /// Its sender gives it up.
    RestoreDrop { incarnation: Incarnation },
    /// Registers a job, or a new version of it, with its evaluation.
    JobRegister(JobRegister),
    /// Stops a job, or forgets it.
    JobDeregister(JobDeregister),
    /// Marks versions of a job as good to go back to, or not.
    JobStability {
        key: JobKey,
        version: u64,
        stable: bool,
    },
    /// Evaluates a job although nothing changed.
    JobEvaluate {
        eval: Evaluation,
        force_reschedule: bool,
    },
    /// Launches a job from a parameterized one. A repeated idempotency token launches nothing: the
    /// outcome names the child that has it.
    JobDispatch(ChildJob),
    /// Changes the count of one group, or notes what an autoscaler says of it.
    JobScale(Box<JobScale>),
    /// Names a version of a job, or takes such a name away.
    JobTag(JobTag),
    /// Launches periodic jobs, whose launch records move with it.
    PeriodicLaunch(PeriodicLaunch),
    /// Creates evaluations, or changes existing ones.
    EvalsUpsert { evals: Vec<Evaluation> },
    /// Deletes evaluations that an operator chose, open ones included.
    EvalsDelete(EvalsDelete),
    /// What the scheduler decided for one evaluation, checked by the plan queue.
    #[serde(skip)]
    PlanApply(Box<PlanApply>),
    /// Asks the scheduler to move allocations, with one evaluation per job.
    AllocsStop {
        allocs: Vec<(AllocId, DesiredTransition)>,
        evals: Vec<Evaluation>,
    },
    /// A node knocks.
    #[serde(skip)]
    NodeHello(Box<NodeHello>),
    /// A node's complete report, in one piece.
    #[serde(skip)]
    NodeSynced(Box<NodeSynced>),
    /// A node's sync made no sense (the parts do not add up); it begins again.
    #[serde(skip)]
    SyncRejected { node: NodeId, epoch: SessionEpoch },
    /// Nodes whose complete report is overdue: their session is taken away, they have to knock
    /// again.
    #[serde(skip)]
    SyncDeadline { nodes: Vec<(NodeId, SessionEpoch)> },
    /// Reports of many nodes in one entry.
    #[serde(skip)]
    AllocUpdates { batches: Vec<NodeBatch> },
    /// Nodes that fell silent within one detection period.
    #[serde(skip)]
    HeartbeatMissed { nodes: Vec<(NodeId, SessionEpoch)> },
    /// No allocation on these disconnected nodes has an open disconnect window any more.
    #[serde(skip)]
    WindowExpired { nodes: Vec<(NodeId, SessionEpoch)> },
    /// Allocations that their nodes, which are ready, did not accept in time: they are to be moved
    /// elsewhere.
    PendingExpired { nodes: Vec<Unaccepted> },
    /// A node says something new about itself.
    NodeFacts {
        node: NodeId,
        epoch: SessionEpoch,
        facts: Arc<Node>,
    },
    /// An operator's switch: may the scheduler place there?
    NodeEligibility {
        node: NodeId,
        eligibility: Eligibility,
    },
    /// An operator begins, changes or ends a node's drain.
    NodeDrainSet(NodeDrainSet),
    /// Asks allocations of draining nodes to leave. Each mark is judged again: the drain may have
    /// ended, and a service may have too few healthy allocations by now.
    AllocsMigrate { nodes: Vec<DrainMarks> },
    /// Nothing is left on a node that had to leave. Refused where something is.
    NodeDrainComplete {
        node: NodeId,
        /// The drain that this was decided for: the index of its entry.
        drain_index: u64,
    },
    /// Forgets a node; its allocations are lost, those that stop themselves when their leases are
    /// over.
    NodePurge { node: NodeId },
    /// A deployment goes on, ends, or is paused.
    DeploymentStatus(DeploymentStatusUpdate),
    /// Canaries are good: the rest may follow.
    DeploymentPromote(DeploymentPromote),
    /// An operator says which allocations of a deployment are healthy.
    DeploymentAllocHealth(Box<DeploymentAllocHealth>),
    /// The first management token of a cluster.
    AclBootstrap { token: AclToken, reset_index: u64 },
    /// Changes access control: tokens, policies, roles, logins, root keys.
    Access(AccessCommand),
    /// Changes a variable.
    #[serde(skip)]
    VariableApply(Box<VariableApply>),
    /// Ends locks on variables.
    #[serde(skip)]
    VariableLocksExpire(VariableLocksExpire),
    /// Replaces values of variables by the same ones, sealed with the active root key.
    #[serde(skip)]
    VariablesRekey(VariablesRekey),
    /// Creates or replaces a namespace.
    NamespaceUpsert { namespace: Namespace },
    /// Removes a namespace that holds nothing that the rule counts.
    NamespaceDelete {
        name: String,
        #[serde(default, skip_serializing_if = "DeletionRule::is_first")]
        rule: DeletionRule,
    },
    /// Creates or replaces a node pool.
    NodePoolUpsert { pool: NodePool },
    /// Removes a node pool without nodes and without jobs that are not over.
    NodePoolDelete { name: String },
    /// Changes how the scheduler ranks.
    SchedulerConfigSet {
        config: SchedulerConfig,
        enforce_index: Option<u64>,
    },
    /// Removes what is named here and really over: each name is checked again.
    GcCollect(GcCollect),
}

/// The highest level of commands that this release reads from the log: see [`Command::level`].
pub const COMMAND_LEVEL: u32 = 4;

impl Command {
    /// The level of the first release that applies this command as it is: 1 for all that the first
    /// release knew, one more with each release that adds to them. It enters the log once every
    /// server has at least that level.
    pub fn level(&self) -> u32 {
        match self {
            Self::Barrier
            | Self::ClusterInit { .. }
            | Self::RestoreChunk { .. }
            | Self::RestoreCommit { .. }
            | Self::RestoreDrop { .. }
            | Self::JobRegister(_)
            | Self::JobDeregister(_)
            | Self::JobStability { .. }
            | Self::JobEvaluate { .. }
            | Self::EvalsUpsert { .. }
            | Self::PlanApply(_)
            | Self::AllocUpdates { .. }
            | Self::AllocsStop { .. }
            | Self::NodeHello(_)
            | Self::NodeSynced(_)
            | Self::NodeFacts { .. }
            | Self::NodeEligibility { .. }
            | Self::NodePurge { .. }
            | Self::HeartbeatMissed { .. }
            | Self::WindowExpired { .. }
            | Self::PendingExpired { .. }
            | Self::SyncDeadline { .. }
            | Self::SyncRejected { .. }
            | Self::DeploymentStatus(_)
            | Self::DeploymentPromote(_)
            | Self::DeploymentAllocHealth(_)
            | Self::SchedulerConfigSet { .. }
            | Self::GcCollect(_) => 1,
            Self::NamespaceUpsert { namespace } => namespaces::upsert_level(namespace),
            Self::NamespaceDelete { name: _, rule } => rule.level(),
            Self::JobDispatch(_)
            | Self::JobScale(_)
            | Self::JobTag(_)
            | Self::PeriodicLaunch(_)
            | Self::EvalsDelete(_)
            | Self::NodeDrainSet(_)
            | Self::AllocsMigrate { .. }
            | Self::NodeDrainComplete { .. }
            | Self::NodePoolUpsert { .. }
            | Self::NodePoolDelete { .. } => 2,
            Self::VariableApply(_) | Self::VariableLocksExpire(_) | Self::VariablesRekey(_) => {
                IDENTITY_LEVEL
            }
            // An older release would drop the new fields, and differ.
            Self::AclBootstrap { token, .. } if token.is_of_first_release() => 1,
            Self::RestoreBegin { client_tokens, .. } if client_tokens.is_default() => 1,
            Self::AclBootstrap { .. } | Self::RestoreBegin { .. } => ACCESS_LEVEL,
            Self::Access(command) => command.level(),
        }
    }
}

/// See [`Command::GcCollect`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GcCollect {
    /// Finished evaluations.
    pub evals: Vec<EvalId>,
    /// Terminal allocations.
    pub allocs: Vec<AllocId>,
    /// Dead jobs, with their versions.
    pub jobs: Vec<JobKey>,
    /// Finished deployments.
    pub deployments: Vec<DeploymentId>,
    /// Nodes that are down and empty.
    pub nodes: Vec<NodeId>,
}
