//! Why a command did nothing.

use std::borrow::Cow;

use protocol_model::{AllocId, DeploymentId, DeploymentStatus, EvalId, JobKey, NodeId, SpecHash};
use serde::{Deserialize, Serialize};

use super::access::AccessRefusal;
use super::kind::KindChange;
use super::launched::LaunchField;
use super::namespace::{JobDenied, NamespaceHolds};
use super::scale::ScaleRefusal;
use super::variable::VariableRefusal;
use crate::fit::Exhausted;

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
    #[error("job {:?} in namespace {:?} at version {version} not found", .key.id, .key.namespace)]
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
    /// The namespace does not take the job.
    #[error(transparent)]
    JobDenied(JobDenied),
    /// The namespace still has jobs or allocations that are not over.
    #[error(transparent)]
    NamespaceHolds(NamespaceHolds),
    /// Every cluster has the namespace.
    #[error("can not delete {0} namespace")]
    NamespaceNotDeletable(String),
    /// No such node pool.
    #[error("node pool {0:?} not found")]
    UnknownNodePool(String),
    /// Every cluster has the pool as it is.
    #[error("modifying node pool {0:?} is not allowed")]
    PoolNotChangeable(String),
    /// Every cluster has the pool.
    #[error("deleting node pool {0:?} is not allowed")]
    PoolNotDeletable(String),
    /// The pool still has nodes.
    #[error("node pool {0:?} has nodes")]
    PoolHasNodes(String),
    /// The pool still has jobs that are not over.
    #[error("node pool {0:?} has non-terminal jobs")]
    PoolHasJobs(String),
    /// The job is in a pool that does not exist.
    #[error("job {job:?} is in nonexistent node pool {pool:?}")]
    JobInUnknownPool {
        /// The job's id.
        job: String,
        /// The pool that it names.
        pool: String,
    },
    /// No node is in the pool `all`, or in one whose name is none.
    #[error("node is not allowed to register in node pool {0:?}")]
    PoolTakesNoNodes(String),
    /// An evaluation that exists belongs to another job.
    #[error("evaluation {0} belongs to another job")]
    EvalOfAnotherJob(EvalId),
    /// An evaluation that is over cannot be opened again.
    #[error("evaluation {0} is over")]
    EvalTerminal(EvalId),
    /// No such evaluation.
    #[error("evaluation {0} not found")]
    UnknownEval(EvalId),
    /// Allocations that later decisions need hang on the evaluation.
    #[error("eval {0} is not safe to delete")]
    EvalInUse(EvalId),
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
    #[error(
        "node {0} is another host: the secret is not the one that it registered with (a copied \
         data_dir makes two hosts one node: give this host an empty one, or purge the node)"
    )]
    WrongSecret(NodeId),
    /// An unregistered node sent no facts.
    #[error("node {0} is not registered: facts are needed")]
    NeedsFacts(NodeId),
    /// An unregistered node may not join.
    #[error(
        "node {0} is not registered, and its join token is missing or wrong: join_token in the \
         node's configuration has to be node_join_token of the servers'"
    )]
    JoinDenied(NodeId),
    /// A message of another session, or of none.
    #[error("node {0}: not in this session")]
    NotInSession(NodeId),
    /// A draining node cannot be made eligible.
    #[error("can not set node's scheduling eligibility to eligible while it is draining")]
    NodeDraining(NodeId),
    /// A drain that ended or changed since, or that has something left to move.
    #[error("the drain of node {0} changed meanwhile, or something is left to move")]
    DrainNotOver(NodeId),
    /// The command makes no sense.
    #[error("malformed command: {0}")]
    Malformed(Cow<'static, str>),
    /// No such deployment.
    #[error("deployment {0} not found")]
    UnknownDeployment(DeploymentId),
    /// The deployment is over.
    #[error("deployment {0} is over")]
    DeploymentTerminal(DeploymentId),
    /// The deployment has another status than the one that the change starts from.
    #[error("deployment {id} is {found:?} by now")]
    DeploymentMoved {
        /// Which.
        id: DeploymentId,
        /// Its status.
        found: DeploymentStatus,
    },
    /// The deployment has no such group.
    #[error("deployment {id} has no task group {group:?}")]
    UnknownDeploymentGroup {
        /// Which deployment.
        id: DeploymentId,
        /// The group's name.
        group: String,
    },
    /// Not all canaries are healthy.
    #[error("{}", lines(.0))]
    NotPromotable(Vec<ShortOfCanaries>),
    /// The allocation belongs to another deployment, or to none.
    #[error("alloc \"{alloc}\" is not part of deployment \"{deployment}\"")]
    NotOfDeployment {
        /// The allocation.
        alloc: AllocId,
        /// The deployment.
        deployment: DeploymentId,
    },
    /// There is a management token already.
    #[error("ACL bootstrap already done (reset index: {reset_index})")]
    AclBootstrapped {
        /// What a reset must name.
        reset_index: u64,
    },
    /// A change of access control is refused.
    #[error(transparent)]
    Access(AccessRefusal),
    /// A variable is not changed.
    #[error(transparent)]
    Variable(VariableRefusal),
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
    /// A job of this id exists, and is of another kind.
    #[error("{0}: purge it first with `job stop -purge`, or give this one another id")]
    JobKind(KindChange),
    /// A new job has a field that only a launch sets.
    #[error("job can't be submitted with '{}' set", .0.name())]
    LaunchFieldSet(LaunchField),
    /// A registration changes a field that only a launch sets.
    #[error("field '{}' is read-only", .0.name())]
    LaunchFieldChanged(LaunchField),
    /// The template is stopped: nothing is launched from it.
    #[error("Specified job {:?} is stopped", .0.id)]
    TemplateStopped(JobKey),
    /// The job takes no dispatches.
    #[error("Specified job {:?} is not a parameterized job", .0.id)]
    NotParameterized(JobKey),
    /// The template changed since the child was made from it.
    #[error("job {key} changed meanwhile: it is at {found}, the child was made from {wanted}")]
    TemplateChanged {
        /// The template.
        key: JobKey,
        /// The `JobModifyIndex` that the child names.
        wanted: u64,
        /// The one that the template has.
        found: u64,
    },
    /// The group is not scaled.
    #[error(transparent)]
    Scale(ScaleRefusal),
    /// Another version of the job has the tag.
    #[error("tag {name:?} already exists on a different version of job {:?}", .key.id)]
    TagTaken {
        /// The job.
        key: JobKey,
        /// The tag.
        name: String,
    },
    /// No version of the job has the tag.
    #[error("tag {name:?} not found on job {:?}", .key.id)]
    UnknownTag {
        /// The job.
        key: JobKey,
        /// The tag.
        name: String,
    },
    /// A job with the child's id exists.
    #[error("job {0} exists already")]
    ChildExists(JobKey),
}

impl Refusal {
    pub(crate) fn malformed(why: &'static str) -> Self {
        Self::Malformed(Cow::Borrowed(why))
    }
}

/// A group that cannot be promoted yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("Task group {group:?} has {healthy}/{desired} healthy allocations")]
pub struct ShortOfCanaries {
    /// The group.
    pub group: String,
    /// How many of its canaries are live and healthy.
    pub healthy: u32,
    /// How many have to be.
    pub desired: u32,
}

fn lines(groups: &[ShortOfCanaries]) -> String {
    let lines: Vec<String> = groups.iter().map(ToString::to_string).collect();
    lines.join("\n")
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
