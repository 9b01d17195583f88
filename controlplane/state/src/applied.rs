//! What a command did: the outcome that its proposer waits for, and the signals that tell the
//! leader's parts what to look at.

use std::borrow::Cow;
use std::sync::Arc;

use protocol_model::{
    AllocId, DeploymentId, EvalId, EvalStatus, Evaluation, JobKey, NodeId, NodeStatus, SpecHash,
    UnixNanos,
};
use protocol_wire::v1::{ItemResult, UpdateClass};
use serde::{Deserialize, Serialize};

use crate::fit::Exhausted;
use crate::record::SessionEpoch;

/// The result of [`crate::State::apply`].
#[derive(Clone, PartialEq, Debug)]
pub struct Applied {
    /// The state's index from now on.
    pub index: u64,
    /// What the proposer is told.
    pub outcome: Outcome,
    /// What the leader's parts are told; empty on a refusal.
    pub signals: Vec<Signal>,
}

/// What the proposer of a command is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// Done, and there is nothing to tell.
    Done,
    /// Nothing to do: the state was there already.
    NoOp,
    /// Not done, nothing changed.
    Refused(Refusal),
    /// A job was registered.
    JobRegistered {
        /// Its version.
        version: u64,
        /// Its `JobModifyIndex`.
        job_modify_index: u64,
        /// The evaluation made with it.
        eval: Option<EvalId>,
    },
    /// A job was stopped or forgotten.
    JobDeregistered {
        /// Its `JobModifyIndex`.
        job_modify_index: u64,
        /// The evaluation made with it.
        eval: Option<EvalId>,
    },
    /// A plan was applied whole.
    PlanApplied,
    /// A session was made or resumed.
    Welcome(Welcome),
    /// A node's complete report was taken in.
    Synced {
        /// Allocations that the node had been told of and no longer has.
        lost: Vec<AllocId>,
        /// Reported allocations that the state does not know: the first map stops them.
        unknown: Vec<AllocId>,
    },
    /// Batches of reports, in the command's order. (A message of its own on the wire.)
    #[serde(skip)]
    Updates(Vec<BatchResult>),
    /// Nodes that fell silent, or whose windows ended.
    Missed(Vec<MissedResult>),
    /// Evaluations made.
    Evaluated(Vec<EvalId>),
    /// What garbage collection removed.
    Collected(Collected),
}

/// A node's session, made or resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Its epoch: the log index of the command that made it.
    pub epoch: SessionEpoch,
    /// Made anew, or resumed.
    pub kind: WelcomeKind,
    /// The number of the last urgent batch applied in this session.
    pub applied_urgent_seq: u64,
    /// The number of the last typical batch applied in this session.
    pub applied_typical_seq: u64,
}

/// How a session came about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum WelcomeKind {
    /// A new one: the node owes its complete report.
    New,
    /// The same Hello again: the session it made already.
    Repeated,
    /// The node never left.
    Resumed,
}

/// The results of one node's batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchResult {
    /// Whose.
    pub node: NodeId,
    /// Of which session.
    pub epoch: SessionEpoch,
    /// Urgent or typical.
    pub class: UpdateClass,
    /// Its number.
    pub seq: u64,
    /// Per report, in order.
    pub results: Vec<ItemResult>,
    /// Why the whole batch was turned away, where it was.
    pub rejected: Option<BatchRejected>,
}

/// Why a whole batch was turned away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BatchRejected {
    /// The node owes its complete report first.
    OwesSync,
    /// Another epoch, or a node that is silent or unknown as far as the state is concerned.
    NotInSession,
}

/// What a missed heartbeat did to one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MissedResult {
    /// The node.
    pub node: NodeId,
    /// Its status from now on; `None` where nothing changed (another epoch, silent already, gone).
    pub status: Option<NodeStatus>,
}

/// What garbage collection removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Collected {
    /// Evaluations.
    pub evals: u64,
    /// Allocations.
    pub allocs: u64,
    /// Jobs.
    pub jobs: u64,
    /// Deployments.
    pub deployments: u64,
    /// Nodes.
    pub nodes: u64,
    /// Named, but not over yet.
    pub kept: u64,
}

/// Why a command was refused. Nothing changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The cluster has an incarnation already.
    #[error("the cluster is initialized already")]
    AlreadyInitialized,
    /// The cluster has no incarnation yet.
    #[error("the cluster is not initialized")]
    NotInitialized,
    /// No such job.
    #[error("job {0} not found")]
    UnknownJob(JobKey),
    /// No such version of the job.
    #[error("job {key} has no version {version}")]
    UnknownJobVersion {
        /// The job.
        key: JobKey,
        /// The version.
        version: u64,
    },
    /// The job changed since the caller looked.
    #[error("enforcing job modify index {wanted}: job is at {found}")]
    JobModified {
        /// What the caller expects.
        wanted: u64,
        /// What the state has; 0 = no job.
        found: u64,
    },
    /// No such namespace.
    #[error("namespace {0:?} not found")]
    UnknownNamespace(String),
    /// The namespace still has jobs.
    #[error("namespace {0:?} is not empty")]
    NamespaceInUse(String),
    /// An evaluation that exists belongs to another job.
    #[error("evaluation {0} belongs to another job")]
    EvalOfAnotherJob(EvalId),
    /// An evaluation that is over cannot be opened again.
    #[error("evaluation {0} is over")]
    EvalTerminal(EvalId),
    /// A job's evaluation names another job.
    #[error("the evaluation is not of job {0}")]
    EvalMismatch(JobKey),
    /// No such allocation.
    #[error("allocation {0} not found")]
    UnknownAlloc(AllocId),
    /// The allocation cannot be changed as asked in the state it is in.
    #[error("allocation {0} cannot be changed so in its state")]
    AllocState(AllocId),
    /// The allocation's id is taken.
    #[error("allocation {0} exists already")]
    DuplicateAlloc(AllocId),
    /// The allocation's specification is not known.
    #[error("job specification {0} not found")]
    UnknownSpec(SpecHash),
    /// A plan does not hold on the newest state.
    #[error("the plan does not hold on {} nodes", .0.len())]
    PlanRejected(Vec<NodeRejected>),
    /// No such node.
    #[error("node {0} not found")]
    UnknownNode(NodeId),
    /// Another host uses the node's id.
    #[error("node {0}: the secret is another")]
    WrongSecret(NodeId),
    /// An unregistered node sent no facts.
    #[error("node {0} is not registered: facts are needed")]
    NeedsFacts(NodeId),
    /// An unregistered node may not join.
    #[error("node {0} is not registered: a join token is needed")]
    JoinDenied(NodeId),
    /// A message of another session, or of none.
    #[error("node {0}: not in this session")]
    NotInSession(NodeId),
    /// A draining node cannot be made eligible.
    #[error("node {0} is draining")]
    NodeDraining(NodeId),
    /// The command makes no sense.
    #[error("malformed command: {0}")]
    Malformed(Cow<'static, str>),
    /// No such deployment.
    #[error("deployment {0} not found")]
    UnknownDeployment(DeploymentId),
    /// The deployment is over.
    #[error("deployment {0} is over")]
    DeploymentTerminal(DeploymentId),
    /// The deployment cannot be promoted.
    #[error("deployment {0}: no canaries to promote, or not all of them are healthy")]
    NotPromotable(DeploymentId),
    /// There is a management token already.
    #[error("ACL bootstrap was done already (reset index {reset_index})")]
    AclBootstrapped {
        /// What a reset must name.
        reset_index: u64,
    },
    /// The scheduler's configuration changed since the caller looked.
    #[error("enforcing index {wanted}: the scheduler configuration is at {found}")]
    ConfigModified {
        /// What the caller expects.
        wanted: u64,
        /// What the state has.
        found: u64,
    },
    /// Another checkpoint is on its way.
    #[error("another restore is in progress: {received} of {bytes} bytes have come")]
    RestoreInProgress {
        /// How much of it has come.
        received: u64,
        /// How long it is.
        bytes: u64,
    },
    /// The checkpoint is longer than is restored.
    #[error("the snapshot has {bytes} bytes: at most {bytes_max} are restored")]
    RestoreTooLarge {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// No such restore is on its way: it was silent for too long, or dropped.
    #[error("the restore was given up: it was silent for too long, or another one dropped it")]
    RestoreUnknown,
    /// A piece of the checkpoint is missing.
    #[error("the restore has {expected} bytes: those before {offset} are missing")]
    RestoreGap {
        /// Where the piece begins.
        offset: u64,
        /// Where the next one has to.
        expected: u64,
    },
    /// What was sent is no checkpoint that can be restored.
    #[error("the snapshot cannot be restored: {0}")]
    BadCheckpoint(String),
    /// It was decided on a state that another one has replaced.
    #[error("the cluster was restored meanwhile")]
    AnotherIncarnation,
    /// The command's index is not newer than the state's.
    #[error("log index {index} is not above the applied index {applied}")]
    OldIndex {
        /// The command's.
        index: u64,
        /// The state's.
        applied: u64,
    },
}

impl Refusal {
    pub(crate) fn malformed(why: &'static str) -> Self {
        Self::Malformed(Cow::Borrowed(why))
    }
}

/// Why a plan does not hold on one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRejected {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub reason: NodeRejection,
}

/// The kinds of [`NodeRejected`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum NodeRejection {
    /// It is not registered.
    Unknown,
    /// Nothing may be placed on it now.
    NotReady,
    /// It has no room.
    Exhausted(Exhausted),
}

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
    /// A job was registered, changed its version or was stopped.
    JobChanged(JobKey),
    /// A job was forgotten.
    JobRemoved(JobKey),
    /// A node has a new session and owes its report.
    NodeSessionStarted {
        /// The node.
        node: NodeId,
        /// The session.
        epoch: SessionEpoch,
    },
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
    /// Tokens changed.
    AclChanged,
}
