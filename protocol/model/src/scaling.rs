//! Bounds and policies for an external autoscaler.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::instant::UnixNanos;
use crate::nullable;
use crate::nullable::or_default;

/// Bounds and policy of one scaling target.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScalingPolicy {
    /// The policy's id, given by the control plane.
    #[serde(rename = "ID", deserialize_with = "or_default")]
    pub id: String,
    /// Not used: the namespace is in `target`.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// `horizontal` for groups, `vertical_cpu` or `vertical_mem` for tasks.
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub scaling_type: String,
    /// What is scaled: `Namespace`, `Job`, `Group`, `Task`.
    #[serde(with = "nullable")]
    pub target: BTreeMap<String, String>,
    /// The smallest count; absent is the group's count.
    pub min: Option<u32>,
    /// The largest count.
    pub max: Option<u32>,
    /// The autoscaler's own settings, as written. An empty block is not the same as none.
    pub policy: Option<BTreeMap<String, serde_json::Value>>,
    /// Whether the autoscaler acts; absent becomes true.
    pub enabled: Option<bool>,
    /// The index at which it was created.
    #[serde(deserialize_with = "or_default")]
    pub create_index: u64,
    /// The index at which it last changed.
    #[serde(deserialize_with = "or_default")]
    pub modify_index: u64,
}

/// The namespace of policies' ids, for UUIDs of version 5.
const POLICY_IDS: Uuid = Uuid::from_u128(0x6f0d_31a2_52c5_4a5e_9d3b_5a0d_0c4f_8e17);

impl ScalingPolicy {
    /// The policy's id: a function of its target and type, so that it is the same in all versions
    /// of its job.
    pub fn stable_id(&self) -> Uuid {
        let mut name = Vec::new();
        let part = |key: &str| self.target.get(key).map_or("", String::as_str);
        let parts = [
            part("Namespace"),
            part("Job"),
            part("Group"),
            part("Task"),
            &self.scaling_type,
        ];
        for part in parts {
            name.extend((part.len() as u64).to_be_bytes());
            name.extend(part.as_bytes());
        }
        Uuid::new_v5(&POLICY_IDS, &name)
    }
}

/// How many scaling events of one group are kept.
pub const SCALING_EVENTS_MAX: usize = 20;

/// A request to scale a group, or a note of an autoscaler about it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScalingEvent {
    /// When it was applied.
    #[serde(deserialize_with = "or_default")]
    pub time: UnixNanos,
    /// The count that was asked for; absent for a note.
    pub count: Option<i64>,
    /// The group's count before.
    #[serde(deserialize_with = "or_default")]
    pub previous_count: i64,
    /// A text for people.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Whether the autoscaler failed.
    #[serde(deserialize_with = "or_default")]
    pub error: bool,
    /// The caller's own data.
    pub meta: Option<BTreeMap<String, serde_json::Value>>,
    /// The evaluation that carries it out.
    #[serde(rename = "EvalID")]
    pub eval_id: Option<String>,
    /// The index at which it was applied.
    #[serde(deserialize_with = "or_default")]
    pub create_index: u64,
}
