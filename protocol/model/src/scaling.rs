//! Bounds and policies for an external autoscaler.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
