//! What the scheduler decided.

use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, Deployment, EvalId, Evaluation};
use serde::{Deserialize, Serialize};

use super::DeploymentChange;

/// What the scheduler decided for one evaluation. All of it is applied, or none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanApply {
    /// The evaluation that was scheduled.
    pub eval_id: Option<EvalId>,
    /// The index of the snapshot that the plan was made from; 0 = it was not said. A plan made
    /// before the cluster's present incarnation is void. What was stopped of the job since is taken
    /// for stopped by an earlier piece of this plan, which may have its room.
    pub snapshot_index: u64,
    /// New allocations: `job` absent, `spec` set, ids never seen before.
    pub placed: Vec<Arc<Allocation>>,
    /// Allocations that stay where they are and get another version or other resources.
    pub updated: Vec<Arc<Allocation>>,
    /// Changes of single facts.
    pub changed: Vec<AllocChange>,
    /// Allocations that have to go for one of `placed`.
    pub preempted: Vec<Preempted>,
    /// A new deployment, or the running one with new numbers.
    pub deployment: Option<Arc<Deployment>>,
    /// Deployments that this plan ends.
    pub deployment_changes: Vec<DeploymentChange>,
    /// The finished evaluation, follow-ups, blocked ones, and those of preempted jobs.
    pub evals: Vec<Evaluation>,
}

/// One allocation's change in a plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AllocChange {
    /// Which.
    pub id: AllocId,
    /// What.
    pub change: Change,
}

/// What a plan may change of an existing allocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// Stop it.
    Stop {
        /// Why, for people.
        description: String,
        /// The client status from now on, where the node cannot say it (`lost`, or `unknown`).
        /// Refused where the node is back and the allocation lives as far as is known: the plan was
        /// made before.
        client_status: Option<ClientStatus>,
        /// The evaluation that will replace it later.
        followup_eval: Option<EvalId>,
    },
    /// Its node is silent and it may return: client status `unknown`.
    Disconnect {
        /// Why, for people.
        description: String,
        /// The evaluation that looks again when its window ends.
        followup_eval: Option<EvalId>,
    },
    /// Its node is back, and it was decided that this one stays.
    Reconnect,
    /// A later evaluation will reschedule it.
    FollowUp {
        /// That evaluation.
        eval: EvalId,
    },
}

/// One allocation that has to go for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Preempted {
    /// Which goes.
    pub id: AllocId,
    /// For which.
    pub by: AllocId,
}
