//! The operator's switches.

use protocol_model::nullable::{self, or_default};
use serde::{Deserialize, Serialize};

use crate::endpoint::Parameter;
use crate::needs::{MANAGEMENT, OPERATOR_READ, OPERATOR_WRITE, SNAPSHOT_SAVE};
use crate::operation::operations;
use crate::written::Written;

const MEMBER: &[Parameter] = &[
    Parameter::text("id", "the server's id"),
    Parameter::text("address", "the server's address"),
];

const RESTORE: &[Parameter] = &[
    Parameter::flag(
        "force",
        "also where no KEK of this server opens its secrets",
    ),
    Parameter::flag(
        "without_tokens",
        "leave client tokens out: some may be revoked by now",
    ),
];

operations! {
    /// list the members of the log, as a majority knows them; as this server does with `stale`
    RaftConfiguration {} -> RaftMembers = get("/v1/operator/raft/configuration", MANAGEMENT);
    /// let another server lead, the most up-to-date one where none is named
    TransferLeadership {} -> Written = put("/v1/operator/raft/transfer-leadership", MANAGEMENT).parameters(MEMBER);
    /// remove a server from the log
    RemovePeer {} -> Written = delete("/v1/operator/raft/peer", MANAGEMENT).parameters(MEMBER);
    /// save the whole state, verified, with its digest ([snapshots.md](snapshots.md))
    SaveSnapshot {} = get("/v1/operator/snapshot", SNAPSHOT_SAVE);
    /// restore a saved state
    RestoreSnapshot {} = put("/v1/operator/snapshot", MANAGEMENT).parameters(RESTORE).streamed();
    /// read the scheduler's settings
    ReadScheduler {} -> SchedulerSettings = get("/v1/operator/scheduler/configuration", OPERATOR_READ);
    /// change the scheduler's settings
    WriteScheduler {} (SchedulerConfiguration) -> SchedulerWritten = put("/v1/operator/scheduler/configuration", OPERATOR_WRITE)
        .parameters(&[Parameter::number("cas", "only if their index is this one")]);
    /// forget what has ended, whatever its age
    CollectGarbage {} -> Written = put("/v1/system/gc", MANAGEMENT);
    /// accepted without effect: counters are derived
    ReconcileSummaries {} -> Written = put("/v1/system/reconcile/summaries", MANAGEMENT);
}

/// The scheduler's settings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SchedulerConfiguration {
    /// When they were made; not read.
    #[serde(skip_deserializing)]
    pub create_index: u64,
    /// Whether `memory_max` above `memory` has an effect.
    #[serde(deserialize_with = "or_default")]
    pub memory_oversubscription_enabled: bool,
    /// When they changed last; not read.
    #[serde(skip_deserializing)]
    pub modify_index: u64,
    /// Kept and shown, without an effect: every node is looked at. 0 = not set.
    #[serde(deserialize_with = "or_default")]
    pub node_limit_for_feasibility_checks: u32,
    /// Whether evaluations wait.
    #[serde(deserialize_with = "or_default")]
    pub pause_eval_broker: bool,
    /// Whose allocations may take the place of others.
    pub preemption_config: Option<PreemptionConfiguration>,
    /// Whether new jobs are refused to callers without a management token.
    #[serde(deserialize_with = "or_default")]
    pub reject_job_registration: bool,
    /// `binpack` or `spread`; empty = `binpack`.
    #[serde(deserialize_with = "or_default")]
    pub scheduler_algorithm: String,
}

/// Which types of jobs preempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PreemptionConfiguration {
    pub batch_scheduler_enabled: bool,
    pub service_scheduler_enabled: bool,
    pub sys_batch_scheduler_enabled: bool,
    pub system_scheduler_enabled: bool,
}

/// The answer of [`ReadScheduler`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SchedulerSettings {
    pub index: u64,
    pub known_leader: bool,
    pub scheduler_config: SchedulerConfiguration,
}

/// The answer of [`WriteScheduler`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SchedulerWritten {
    pub index: u64,
    pub updated: bool,
    /// The settings that have no effect; absent where there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub warnings: String,
}

/// The answer of [`RaftConfiguration`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RaftMembers {
    /// The entry that made them the members; 1 at least.
    pub index: u64,
    #[serde(deserialize_with = "nullable::deserialize")]
    pub servers: Vec<RaftMember>,
}

/// A member of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RaftMember {
    /// Host and port.
    pub address: String,
    #[serde(rename = "ID")]
    pub id: String,
    pub leader: bool,
    /// The server's name.
    pub node: String,
    pub raft_protocol: String,
    pub voter: bool,
}
