//! The operator's switches.

use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::endpoint::Parameter;
use crate::operation::operations;

const MEMBER: &[Parameter] = &[
    Parameter::text("id", "the server's id"),
    Parameter::text("address", "the server's address"),
];

operations! {
    /// list the members of the log, as a majority knows them; as this server does with `stale`
    RaftConfiguration {} -> Value = get("/v1/operator/raft/configuration");
    /// let another server lead, the most up-to-date one where none is named
    TransferLeadership {} -> Value = put("/v1/operator/raft/transfer-leadership").parameters(MEMBER);
    /// remove a server from the log
    RemovePeer {} -> Value = delete("/v1/operator/raft/peer").parameters(MEMBER);
    /// save the whole state, verified, with its digest ([snapshots.md](snapshots.md))
    SaveSnapshot {} = get("/v1/operator/snapshot");
    /// restore a saved state
    RestoreSnapshot {} = put("/v1/operator/snapshot").streamed();
    /// read the scheduler's settings
    ReadScheduler {} -> Value = get("/v1/operator/scheduler/configuration");
    /// change the scheduler's settings
    WriteScheduler {} (SchedulerConfiguration) -> Value = put("/v1/operator/scheduler/configuration")
        .parameters(&[Parameter::number("cas", "only if their index is this one")]);
    /// forget what has ended, whatever its age
    CollectGarbage {} -> Value = put("/v1/system/gc");
    /// accepted without effect: counters are derived
    ReconcileSummaries {} -> Value = put("/v1/system/reconcile/summaries");
}

/// The scheduler's settings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SchedulerConfiguration {
    /// `binpack` or `spread`; empty = `binpack`.
    #[serde(deserialize_with = "or_default")]
    pub scheduler_algorithm: String,
    /// Whether `memory_max` above `memory` has an effect.
    #[serde(deserialize_with = "or_default")]
    pub memory_oversubscription_enabled: bool,
    /// Whether new jobs are refused to callers without a management token.
    #[serde(deserialize_with = "or_default")]
    pub reject_job_registration: bool,
    /// Whether evaluations wait.
    #[serde(deserialize_with = "or_default")]
    pub pause_eval_broker: bool,
    /// Whose allocations may take the place of others.
    pub preemption_config: Option<PreemptionConfiguration>,
    /// When they were made; not read.
    #[serde(skip_deserializing)]
    pub create_index: u64,
    /// When they changed last; not read.
    #[serde(skip_deserializing)]
    pub modify_index: u64,
}

/// Which types of jobs preempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PreemptionConfiguration {
    pub system_scheduler_enabled: bool,
    pub sys_batch_scheduler_enabled: bool,
    pub batch_scheduler_enabled: bool,
    pub service_scheduler_enabled: bool,
}
