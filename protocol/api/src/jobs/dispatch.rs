//! Dispatches of parameterized jobs.

use std::collections::BTreeMap;

use protocol_model::nullable;
use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};

/// The body of [`super::DispatchJob`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DispatchRequest {
    /// The parameterized job's id, or empty.
    #[serde(rename = "JobID", deserialize_with = "or_default")]
    pub job_id: String,
    /// The payload in base64; at most 16 KiB once it is decoded.
    #[serde(deserialize_with = "or_default")]
    pub payload: String,
    /// Metadata of the child.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// A part of the child's id, before its time.
    #[serde(deserialize_with = "or_default")]
    pub id_prefix_template: String,
    /// The child's priority; 0 = the parent's.
    #[serde(deserialize_with = "or_default")]
    pub priority: i32,
}

/// The answer of [`super::DispatchJob`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Dispatched {
    /// The child.
    #[serde(rename = "DispatchedJobID")]
    pub dispatched_job_id: String,
    /// The evaluation; empty for a repeated dispatch, and for a child that is periodic.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// 0 where there is no evaluation.
    pub eval_create_index: u64,
    /// The index at which the child was created.
    pub job_create_index: u64,
    pub index: u64,
}
