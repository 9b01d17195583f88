//! Evaluations.

use protocol_model::Evaluation;
use serde_json::Value;

use crate::endpoint::Parameter;
use crate::operation::operations;
use crate::parameters::{NEXT_TOKEN, PER_PAGE, PREFIX, REVERSE};

operations! {
    /// list evaluations
    ListEvaluations {} -> Vec<Evaluation> = get("/v1/evaluations").filterable().parameters(&[
        PREFIX,
        PER_PAGE,
        NEXT_TOKEN,
        REVERSE,
        Parameter::text("job", "only of this job"),
        Parameter::text("status", "only in this status"),
    ]);
    /// read an evaluation
    ReadEvaluation { id } -> Evaluation = get("/v1/evaluation/{id}").parameters(&[
        Parameter::flag("related", "with `RelatedEvals`, at most 1000"),
    ]);
    /// list the allocations that an evaluation made
    EvaluationAllocations { id } -> Vec<Value> = get("/v1/evaluation/{id}/allocations");
}
