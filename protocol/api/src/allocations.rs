//! Allocations, as the servers know them.

use protocol_model::Allocation;
use serde_json::Value;

use crate::operation::operations;
use crate::parameters::{
    NEXT_TOKEN, NO_SHUTDOWN_DELAY, PER_PAGE, PREFIX, RESOURCES, REVERSE, TASK_STATES,
};

operations! {
    /// list allocations
    ListAllocations {} -> Vec<Value> = get("/v1/allocations").filterable().parameters(&[
        PREFIX, PER_PAGE, NEXT_TOKEN, REVERSE, RESOURCES, TASK_STATES,
    ]);
    /// read an allocation, with its job
    ReadAllocation { id } -> Allocation = get("/v1/allocation/{id}");
    /// stop an allocation, and place another
    StopAllocation { id } -> Value =
        put("/v1/allocation/{id}/stop").parameters(&[NO_SHUTDOWN_DELAY]);
}
