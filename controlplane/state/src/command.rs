//! What can be asked of the replicated state: one command is one log entry is one transition, the
//! evaluations that it causes included.
//!
//! Everything that is not a function of the state arrives here: the time, the seed of the ids that
//! `apply` may need, hashes of secrets. Whoever proposes a command fills them in.

use std::sync::Arc;

use bytes::Bytes;
use protocol_model::{
    AllocId, Allocation, Deployment, DeploymentId, DeploymentStatus, Eligibility, EvalId,
    Evaluation, Incarnation, Job, JobKey, JobSubmission, Node, NodeId, SpecHash, UnixNanos,
};
use protocol_model::{ClientStatus, DesiredTransition};
use protocol_wire::report::AllocReport;
use protocol_wire::v1::UpdateClass;
use serde::{Deserialize, Serialize};

use crate::record::{AclToken, Digest, Namespace, SchedulerConfig, SessionEpoch};

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
    /// Creates evaluations, or changes existing ones.
    EvalsUpsert { evals: Vec<Evaluation> },
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
    /// Begins or ends a drain. (Deadlines are the drainer's.)
    NodeDrain {
        node: NodeId,
        drain: DrainSwitch,
        eligibility_after: Eligibility,
    },
    /// Forgets a node; its allocations are lost.
    NodePurge { node: NodeId },
    /// A deployment goes on, ends, or is paused.
    DeploymentStatus(DeploymentStatusUpdate),
    /// Canaries are good: the rest may follow.
    DeploymentPromote {
        id: DeploymentId,
        groups: PromoteGroups,
        eval: Option<Evaluation>,
    },
    /// An operator says which allocations of a deployment are healthy.
    DeploymentAllocHealth {
        id: DeploymentId,
        healthy: Vec<AllocId>,
        unhealthy: Vec<AllocId>,
        eval: Option<Evaluation>,
        change: Option<DeploymentChange>,
    },
    /// The first management token of a cluster.
    AclBootstrap { token: AclToken, reset_index: u64 },
    /// Creates or replaces a namespace.
    NamespaceUpsert { namespace: Namespace },
    /// Removes an empty namespace.
    NamespaceDelete { name: String },
    /// Changes how the scheduler ranks.
    SchedulerConfigSet {
        config: SchedulerConfig,
        enforce_index: Option<u64>,
    },
    /// Removes what is named here and really over: each name is checked again.
    GcCollect(GcCollect),
}

/// The highest level of commands that this release reads from the log: see [`Command::level`].
pub const COMMAND_LEVEL: u32 = 1;

impl Command {
    /// The level of the first release that applies this command as it is: 1 for all that the first
    /// release knew, one more with each release that adds to them. It enters the log once every
    /// server has at least that level.
    pub fn level(&self) -> u32 {
        match self {
            Self::Barrier
            | Self::ClusterInit { .. }
            | Self::RestoreBegin { .. }
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
            | Self::NodeDrain { .. }
            | Self::NodePurge { .. }
            | Self::HeartbeatMissed { .. }
            | Self::WindowExpired { .. }
            | Self::SyncDeadline { .. }
            | Self::SyncRejected { .. }
            | Self::DeploymentStatus(_)
            | Self::DeploymentPromote { .. }
            | Self::DeploymentAllocHealth { .. }
            | Self::AclBootstrap { .. }
            | Self::NamespaceUpsert { .. }
            | Self::NamespaceDelete { .. }
            | Self::SchedulerConfigSet { .. }
            | Self::GcCollect(_) => 1,
        }
    }
}

/// See [`Command::JobRegister`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobRegister {
    /// The canonical job. Version, indexes and status are the state's to fill in.
    pub job: Arc<Job>,
    /// The hash of its specification, computed by the proposer, so that servers of two releases
    /// never disagree about it.
    pub spec: SpecHash,
    /// The evaluation to make with it; none for periodic and parameterized jobs.
    pub eval: Option<Evaluation>,
    /// Refuse unless the job's `JobModifyIndex` is this; 0 = the job must not exist.
    pub enforce_index: Option<u64>,
    /// What it was made from, within
    /// [`SUBMISSION_BYTES_MAX`](protocol_model::SUBMISSION_BYTES_MAX).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<Arc<JobSubmission>>,
}

/// See [`Command::JobDeregister`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobDeregister {
    /// Which job.
    pub key: JobKey,
    /// Stop it, or forget it too.
    pub purge: Purge,
    /// The evaluation that carries the stop out.
    pub eval: Option<Evaluation>,
    /// Skip the shutdown delay of its tasks.
    pub no_shutdown_delay: bool,
}

/// Whether a stopped job is forgotten at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Purge {
    /// Keep it, stopped, until garbage collection.
    Keep,
    /// Forget it and its versions.
    Forget,
}

/// Whether a drain begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DrainSwitch {
    /// Allocations are to leave.
    Begin,
    /// They may stay.
    End,
}

/// What the scheduler decided for one evaluation. All of it is applied, or none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanApply {
    /// The evaluation that was scheduled.
    pub eval_id: Option<EvalId>,
    /// The index of the snapshot that the plan was checked against; 0 = it was not said. A plan
    /// made before the cluster's present incarnation is void.
    pub snapshot_index: u64,
    /// New allocations: `job` absent, `spec` set, ids never seen before.
    pub placed: Vec<Arc<Allocation>>,
    /// Allocations that stay where they are and get another version or other resources.
    pub updated: Vec<Arc<Allocation>>,
    /// Changes of single facts.
    pub changed: Vec<AllocChange>,
    /// Allocations that have to go for one of `placed`.
    pub preempted: Vec<Preempted>,
    /// A new deployment, or the running one with new numbers.
    pub deployment: Option<Arc<Deployment>>,
    /// Deployments that this plan ends.
    pub deployment_changes: Vec<DeploymentChange>,
    /// The finished evaluation, follow-ups, blocked ones, and those of preempted jobs.
    pub evals: Vec<Evaluation>,
}

/// One allocation's change in a plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AllocChange {
    /// Which.
    pub id: AllocId,
    /// What.
    pub change: Change,
}

/// What a plan may change of an existing allocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// Stop it.
    Stop {
        /// Why, for people.
        description: String,
        /// The client status from now on, where the node cannot say it (`lost`, or `unknown`).
        client_status: Option<ClientStatus>,
        /// The evaluation that will replace it later.
        followup_eval: Option<EvalId>,
    },
    /// Its node is silent and it may return: client status `unknown`.
    Disconnect {
        /// Why, for people.
        description: String,
        /// The evaluation that looks again when its window ends.
        followup_eval: Option<EvalId>,
    },
    /// Its node is back, and it was decided that this one stays.
    Reconnect,
    /// A later evaluation will reschedule it.
    FollowUp {
        /// That evaluation.
        eval: EvalId,
    },
}

/// One allocation that has to go for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Preempted {
    /// Which goes.
    pub id: AllocId,
    /// For which.
    pub by: AllocId,
}

/// A deployment's new status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeploymentChange {
    /// Which deployment.
    pub id: DeploymentId,
    /// Its status from now on.
    pub status: DeploymentStatus,
    /// Why, for people.
    pub description: String,
}

/// See [`Command::DeploymentStatus`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeploymentStatusUpdate {
    /// The new status.
    pub change: DeploymentChange,
    /// The job to go back to, registered in the same entry.
    pub revert: Option<JobRegister>,
    /// The evaluation that carries it out.
    pub eval: Option<Evaluation>,
}

/// Which groups of a deployment are promoted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PromoteGroups {
    /// Every group with canaries.
    All,
    /// These.
    Named(Vec<String>),
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

/// Whether a node's daemon is the one that had the last session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DaemonLife {
    /// The same process: its session may be resumed.
    Continued,
    /// A restarted one: it never resumes.
    Restarted,
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
