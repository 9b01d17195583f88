//! Evaluations.

use protocol_model::{
    AllocationListStub, DeploymentId, EvalId, EvalStatus, EvalTrigger, Evaluation, JobType, NodeId,
    UnixNanos, nullable::or_default, optional_id, rfc3339,
};
use serde::{Deserialize, Serialize};

use crate::endpoint::Parameter;
use crate::needs::{MANAGEMENT, READ_EVAL, READ_JOB};
use crate::operation::operations;
use crate::parameters::{NEXT_TOKEN, PER_PAGE, PREFIX, REVERSE};

operations! {
    /// list evaluations
    ListEvaluations {} -> Vec<Evaluation> = get("/v1/evaluations", READ_JOB).filterable().parameters(&[
        PREFIX,
        PER_PAGE,
        NEXT_TOKEN,
        REVERSE,
        Parameter::text("job", "only of this job"),
        Parameter::text("status", "only in this status"),
    ]);
    /// count evaluations
    CountEvaluations {} -> EvaluationCount = get("/v1/evaluations/count", READ_JOB).filterable().parameters(&[
        PREFIX,
    ]);
    /// delete evaluations, by ids or by an expression; open ones leave the scheduler
    DeleteEvaluations {} (EvalDeleteRequest) -> EvalsDeleted = delete("/v1/evaluations", MANAGEMENT);
    /// read an evaluation
    ReadEvaluation { id } -> Evaluation = get("/v1/evaluation/{id}", READ_EVAL).parameters(&[
        Parameter::flag("related", "with `RelatedEvals`, at most 1000"),
    ]);
    /// list the allocations that an evaluation made
    EvaluationAllocations { id } -> Vec<AllocationListStub> = get("/v1/evaluation/{id}/allocations", READ_EVAL);
}

/// The most ids that [`EvalDeleteRequest`] may have.
pub const EVAL_IDS_MAX: usize = 7281;

/// The answer of [`CountEvaluations`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EvaluationCount {
    pub count: u64,
    pub index: u64,
    pub known_leader: bool,
}

/// The body of [`DeleteEvaluations`]: ids or a filter, not both.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EvalDeleteRequest {
    /// At most [`EVAL_IDS_MAX`]. All are deleted, or none.
    #[serde(rename = "EvalIDs", deserialize_with = "or_default")]
    pub eval_ids: Vec<EvalId>,
    /// An expression: those that match, existed when the call was made, and may go.
    #[serde(deserialize_with = "or_default")]
    pub filter: String,
}

/// The answer of [`DeleteEvaluations`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EvalsDeleted {
    /// Evaluations that were deleted.
    pub count: u64,
    /// Evaluations that match and stay: later decisions need them, or they changed meanwhile.
    pub kept: u64,
    /// Those of the deleted ones that were pending or blocked.
    pub open: u64,
    pub index: u64,
}

/// The short form of an evaluation that is related to another one. Every key is there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RelatedEvaluation {
    #[serde(rename = "ID")]
    pub id: EvalId,
    pub namespace: String,
    pub priority: i32,
    #[serde(rename = "Type")]
    pub job_type: JobType,
    pub triggered_by: EvalTrigger,
    #[serde(rename = "JobID")]
    pub job_id: String,
    #[serde(rename = "NodeID", with = "optional_id")]
    pub node_id: Option<NodeId>,
    #[serde(rename = "DeploymentID", with = "optional_id")]
    pub deployment_id: Option<DeploymentId>,
    pub status: EvalStatus,
    pub status_description: String,
    #[serde(with = "rfc3339")]
    pub wait_until: Option<UnixNanos>,
    #[serde(with = "optional_id")]
    pub next_eval: Option<EvalId>,
    #[serde(with = "optional_id")]
    pub previous_eval: Option<EvalId>,
    #[serde(with = "optional_id")]
    pub blocked_eval: Option<EvalId>,
    pub create_index: u64,
    pub modify_index: u64,
    pub create_time: UnixNanos,
    pub modify_time: UnixNanos,
}

impl From<&Evaluation> for RelatedEvaluation {
    fn from(eval: &Evaluation) -> Self {
        Self {
            id: eval.id,
            namespace: eval.namespace.clone(),
            priority: eval.priority,
            job_type: eval.job_type,
            triggered_by: eval.triggered_by,
            job_id: eval.job_id.clone(),
            node_id: eval.node_id,
            deployment_id: eval.deployment_id,
            status: eval.status,
            status_description: eval.status_description.clone(),
            wait_until: eval.wait_until,
            next_eval: eval.next_eval,
            previous_eval: eval.previous_eval,
            blocked_eval: eval.blocked_eval,
            create_index: eval.create_index,
            modify_index: eval.modify_index,
            create_time: eval.create_time,
            modify_time: eval.modify_time,
        }
    }
}
