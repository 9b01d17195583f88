//! The versions of a job, and their sources.

use std::sync::Arc;

use protocol_model::{Job, JobSubmission, nullable};
use serde::{Deserialize, Serialize};

use super::diff::JobDiff;

/// The answer of [`super::JobVersions`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Versions {
    /// The newest first.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub versions: Vec<Arc<Job>>,
    /// Each with its difference to the one that was asked for, in the order of `versions`; `null`
    /// where none are wanted.
    pub diffs: Option<Vec<JobDiff>>,
    pub index: u64,
    /// Always 0.
    pub last_contact: u64,
    pub known_leader: bool,
}

/// The source of a version, and the version: the answer of [`super::JobSubmissionOf`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VersionSubmission {
    #[serde(flatten)]
    pub submission: Arc<JobSubmission>,
    pub namespace: String,
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub version: u64,
    pub job_modify_index: u64,
}
