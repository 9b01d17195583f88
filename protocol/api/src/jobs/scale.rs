//! The scale of a job's groups.

use std::collections::BTreeMap;

use protocol_model::nullable::or_default;
use protocol_model::{ScalingEvent, nullable};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of [`super::ScaleJob`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScaleRequest {
    /// The new count; absent: the event is kept, and nothing changes.
    pub count: Option<i64>,
    /// The target: its `Group`.
    #[serde(with = "nullable")]
    pub target: BTreeMap<String, String>,
    /// A text for people.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Whether the event tells a failure; it has no count then.
    #[serde(deserialize_with = "or_default")]
    pub error: bool,
    /// The caller's own data.
    pub meta: Option<BTreeMap<String, Value>>,
    /// The index that the job must have; absent or 0 = any.
    #[serde(deserialize_with = "or_default")]
    pub job_modify_index: u64,
    /// Accepted, and without effect: there are no policies that object.
    #[serde(deserialize_with = "or_default")]
    pub policy_override: bool,
}

/// The answer of [`super::ReadJobScale`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobScale {
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub namespace: String,
    pub job_create_index: u64,
    pub job_modify_index: u64,
    pub job_stopped: bool,
    /// By group.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub task_groups: BTreeMap<String, GroupScale>,
}

/// One group's counts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GroupScale {
    /// The count of the job.
    pub desired: i64,
    /// Allocations that are wanted and not over.
    pub placed: u64,
    pub running: u64,
    /// Running ones that their deployment found healthy.
    pub healthy: u64,
    /// Running ones that their deployment found unhealthy.
    pub unhealthy: u64,
    /// The newest 20, the newest first.
    #[serde(with = "nullable")]
    pub events: Vec<ScalingEvent>,
}
