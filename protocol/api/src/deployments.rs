//! Deployments.

use protocol_model::{AllocationListStub, Deployment};

use crate::operation::operations;
use crate::parameters::{NEXT_TOKEN, PER_PAGE, PREFIX, REVERSE};

operations! {
    /// list deployments
    ListDeployments {} -> Vec<Deployment> = get("/v1/deployments")
        .filterable()
        .parameters(&[PREFIX, PER_PAGE, NEXT_TOKEN, REVERSE]);
    /// read a deployment
    ReadDeployment { id } -> Deployment = get("/v1/deployment/{id}");
    /// list the allocations of a deployment
    DeploymentAllocations { id } -> Vec<AllocationListStub> = get("/v1/deployment/allocations/{id}");
}
