//! What is asked of jobs and of their rollouts.

use std::sync::Arc;

use protocol_model::{
    AllocId, DeploymentId, DeploymentStatus, Evaluation, Job, JobKey, JobSubmission, SpecHash,
};
use serde::{Deserialize, Serialize};

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

/// A deployment's new status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeploymentChange {
    /// Which deployment.
    pub id: DeploymentId,
    /// Its status from now on.
    pub status: DeploymentStatus,
    /// Why, for people.
    pub description: String,
    /// The status that it starts from; refused where the deployment has another one by now. `None`
    /// = any that is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<DeploymentStatus>,
}

/// See [`Command::DeploymentPromote`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeploymentPromote {
    /// Which deployment.
    pub id: DeploymentId,
    /// Which of its groups.
    pub groups: PromoteGroups,
    /// The evaluation that carries it out.
    pub eval: Option<Evaluation>,
    /// The status that it starts from, as in [`DeploymentChange`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<DeploymentStatus>,
}

/// See [`Command::DeploymentAllocHealth`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeploymentAllocHealth {
    /// Which deployment.
    pub id: DeploymentId,
    /// Its allocations that are healthy.
    pub healthy: Vec<AllocId>,
    /// Its allocations that are unhealthy.
    pub unhealthy: Vec<AllocId>,
    /// The evaluation that goes on with the rollout.
    pub eval: Option<Evaluation>,
    /// The deployment's end, where an unhealthy one fails it.
    pub change: Option<DeploymentChange>,
    /// The job to go back to then, registered in the same entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<JobRegister>,
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
