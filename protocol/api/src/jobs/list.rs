//! A job in lists, and its counters.

use std::collections::BTreeMap;

use protocol_model::{JobStatus, JobType, Multiregion, UnixNanos, nullable};
use serde::{Deserialize, Serialize};

/// A job in [`super::ListJobs`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobListStub {
    #[serde(rename = "ID")]
    pub id: String,
    /// The template that it was made from; empty where there is none.
    #[serde(rename = "ParentID")]
    pub parent_id: String,
    pub name: String,
    pub namespace: String,
    #[serde(with = "nullable")]
    pub datacenters: Vec<String>,
    pub node_pool: String,
    pub multiregion: Option<Multiregion>,
    #[serde(rename = "Type")]
    pub job_type: JobType,
    pub priority: i32,
    pub periodic: bool,
    pub parameterized_job: bool,
    pub stop: bool,
    pub status: JobStatus,
    pub status_description: String,
    pub job_summary: JobCounts,
    /// With `?meta=true`, where there is some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<BTreeMap<String, String>>,
    pub version: u64,
    pub create_index: u64,
    pub modify_index: u64,
    pub job_modify_index: u64,
    pub submit_time: UnixNanos,
}

/// The counters of a job: the answer of [`super::JobSummary`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobCounts {
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub namespace: String,
    /// By group.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub summary: BTreeMap<String, GroupCounts>,
    pub children: ChildCounts,
    pub create_index: u64,
    pub modify_index: u64,
}

/// How many allocations of a group are in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GroupCounts {
    /// To be placed.
    pub queued: i64,
    pub complete: u64,
    pub failed: u64,
    pub running: u64,
    pub starting: u64,
    pub lost: u64,
    pub unknown: u64,
}

/// How many jobs were launched from a template, by status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ChildCounts {
    pub pending: u64,
    pub running: u64,
    pub dead: u64,
}
