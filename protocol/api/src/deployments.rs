//! Deployments.

use protocol_model::nullable::or_default;
use protocol_model::{AllocationListStub, Deployment};
use serde::{Deserialize, Serialize};

use crate::needs::{
    FAIL_DEPLOYMENT, PAUSE_DEPLOYMENT, PROMOTE_DEPLOYMENT, READ_DEPLOYMENT, READ_JOB,
    SET_ALLOC_HEALTH, UNBLOCK_DEPLOYMENT,
};
use crate::operation::operations;
use crate::parameters::{NEXT_TOKEN, PER_PAGE, PREFIX, REVERSE};

operations! {
    /// list deployments
    ListDeployments {} -> Vec<Deployment> = get("/v1/deployments", READ_JOB)
        .filterable()
        .parameters(&[PREFIX, PER_PAGE, NEXT_TOKEN, REVERSE]);
    /// read a deployment
    ReadDeployment { id } -> Deployment = get("/v1/deployment/{id}", READ_DEPLOYMENT);
    /// list the allocations of a deployment
    DeploymentAllocations { id } -> Vec<AllocationListStub> = get("/v1/deployment/allocations/{id}", READ_DEPLOYMENT);
    /// pause a deployment, or resume it (`Pause`)
    PauseDeployment { id } (PauseRequest) -> DeploymentChanged = put("/v1/deployment/pause/{id}", PAUSE_DEPLOYMENT);
    /// promote the canaries of all groups (`All`) or of some (`Groups`)
    PromoteDeployment { id } (PromoteRequest) -> DeploymentChanged = put("/v1/deployment/promote/{id}", PROMOTE_DEPLOYMENT);
    /// fail a deployment
    FailDeployment { id } -> DeploymentChanged = put("/v1/deployment/fail/{id}", FAIL_DEPLOYMENT);
    /// release a deployment that waits for other regions
    UnblockDeployment { id } (UnblockRequest) -> DeploymentChanged = put("/v1/deployment/unblock/{id}", UNBLOCK_DEPLOYMENT);
    /// say which allocations of a deployment are healthy
    SetAllocationHealth { id } (HealthRequest) -> DeploymentChanged =
        put("/v1/deployment/allocation-health/{id}", SET_ALLOC_HEALTH);
}

/// The body of [`PauseDeployment`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PauseRequest {
    /// The deployment's id, as in the path.
    #[serde(rename = "DeploymentID", deserialize_with = "or_default")]
    pub deployment_id: String,
    /// Whether to pause; otherwise it resumes.
    #[serde(deserialize_with = "or_default")]
    pub pause: bool,
}

/// The body of [`PromoteDeployment`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PromoteRequest {
    /// The deployment's id, as in the path.
    #[serde(rename = "DeploymentID", deserialize_with = "or_default")]
    pub deployment_id: String,
    /// Every group with canaries.
    #[serde(deserialize_with = "or_default")]
    pub all: bool,
    /// These groups, where it is not all.
    #[serde(deserialize_with = "or_default")]
    pub groups: Vec<String>,
}

/// The body of [`UnblockDeployment`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct UnblockRequest {
    /// The deployment's id, as in the path.
    #[serde(rename = "DeploymentID", deserialize_with = "or_default")]
    pub deployment_id: String,
}

/// The body of [`SetAllocationHealth`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HealthRequest {
    /// The deployment's id, as in the path.
    #[serde(rename = "DeploymentID", deserialize_with = "or_default")]
    pub deployment_id: String,
    /// Allocations that are healthy.
    #[serde(rename = "HealthyAllocationIDs", deserialize_with = "or_default")]
    pub healthy: Vec<String>,
    /// Allocations that are unhealthy: one fails the deployment.
    #[serde(rename = "UnhealthyAllocationIDs", deserialize_with = "or_default")]
    pub unhealthy: Vec<String>,
}

/// The answer of every change of a deployment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentChanged {
    /// The evaluation that carries the change out; empty where none is needed.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// The index at which it was made; 0 without one.
    pub eval_create_index: u64,
    /// The deployment's index now.
    pub deployment_modify_index: u64,
    /// The job version that a failure goes back to.
    pub reverted_job_version: Option<u64>,
    /// The index of the change.
    pub index: u64,
}
