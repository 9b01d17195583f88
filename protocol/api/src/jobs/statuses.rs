//! Jobs with the statuses of their allocations, in one answer: what a page of many jobs shows.

use protocol_model::{AllocId, ClientStatus, DeploymentId, DeploymentStatus, EvalId, JobStatus};
use protocol_model::{JobType, NodeId, UnixNanos, nullable, optional_id};
use serde::{Deserialize, Serialize};

/// The body of [`super::JobStatusesOf`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StatusesRequest {
    /// The jobs; unknown ones are left out of the answer.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub jobs: Vec<NamespacedId>,
    /// Whether jobs that were launched from templates may be among them.
    #[serde(deserialize_with = "nullable::or_default")]
    pub include_children: bool,
}

/// A job's name within its namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespacedId {
    #[serde(rename = "ID")]
    pub id: String,
    pub namespace: String,
}

/// A job in [`super::JobStatuses`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobStatusesJob {
    #[serde(rename = "ID")]
    pub id: String,
    pub namespace: String,
    pub name: String,
    #[serde(rename = "Type")]
    pub job_type: JobType,
    pub node_pool: String,
    #[serde(with = "nullable")]
    pub datacenters: Vec<String>,
    pub priority: i32,
    pub version: u64,
    pub submit_time: UnixNanos,
    /// The newest index at which the job, one of its allocations or its deployment changed.
    pub modify_index: u64,
    /// The allocations of this job, not those of an earlier one of its name.
    #[serde(with = "nullable")]
    pub allocs: Vec<JobStatusesAlloc>,
    /// The sum of the groups' counts.
    pub group_count_sum: u64,
    /// The statuses of the jobs that were launched from a template; `null` of other jobs.
    pub child_statuses: Option<Vec<JobStatus>>,
    #[serde(rename = "ParentID")]
    pub parent_id: String,
    pub latest_deployment: Option<JobStatusesDeployment>,
    pub stop: bool,
    /// Whether a package manager registered it (`pack.name` in its meta).
    pub is_pack: bool,
    pub status: JobStatus,
}

/// An allocation in [`JobStatusesJob`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobStatusesAlloc {
    #[serde(rename = "ID")]
    pub id: AllocId,
    pub group: String,
    pub client_status: ClientStatus,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    pub deployment_status: JobStatusesHealth,
    pub job_version: u64,
    #[serde(rename = "FollowupEvalID", with = "optional_id")]
    pub followup_eval_id: Option<EvalId>,
    pub has_paused_task: bool,
}

/// The health of an allocation in its deployment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobStatusesHealth {
    pub canary: bool,
    /// `null` while it is not known.
    pub healthy: Option<bool>,
}

/// The newest deployment of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobStatusesDeployment {
    #[serde(rename = "ID")]
    pub id: DeploymentId,
    pub is_active: bool,
    pub job_version: u64,
    pub status: DeploymentStatus,
    pub status_description: String,
    /// Whether every group with canaries promotes itself.
    pub all_auto_promote: bool,
    /// Whether canaries wait for a promotion by hand.
    pub requires_promotion: bool,
}
