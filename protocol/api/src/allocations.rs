//! Allocations, as the servers know them.

use protocol_model::{Allocation, AllocationListStub};
use serde::{Deserialize, Serialize};

use crate::needs::{ALLOC_LIFECYCLE, READ_ALLOC, READ_JOB};
use crate::operation::operations;
use crate::parameters::{
    NEXT_TOKEN, NO_SHUTDOWN_DELAY, PER_PAGE, PREFIX, RESOURCES, REVERSE, TASK_STATES,
};

operations! {
    /// list allocations
    ListAllocations {} -> Vec<AllocationListStub> = get("/v1/allocations", READ_JOB).filterable().parameters(&[
        PREFIX, PER_PAGE, NEXT_TOKEN, REVERSE, RESOURCES, TASK_STATES,
    ]);
    /// read an allocation, with its job
    ReadAllocation { id } -> Allocation = get("/v1/allocation/{id}", READ_ALLOC);
    /// stop an allocation, and place another
    StopAllocation { id } -> Stopped =
        put("/v1/allocation/{id}/stop", ALLOC_LIFECYCLE).parameters(&[NO_SHUTDOWN_DELAY]);
}

/// The answer of [`StopAllocation`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Stopped {
    /// The evaluation that places another allocation.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub index: u64,
}
