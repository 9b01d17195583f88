//! The versions of a job, and their sources.

use std::sync::Arc;

use protocol_model::nullable::or_default;
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

/// The body of [`super::RevertJob`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RevertRequest {
    /// The job's id; required.
    #[serde(rename = "JobID", deserialize_with = "or_default")]
    pub job_id: String,
    /// The version to go back to.
    #[serde(deserialize_with = "or_default")]
    pub job_version: u64,
    /// The version that the job must have; absent = any.
    pub enforce_prior_version: Option<u64>,
}

/// The body of [`super::SetJobStability`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StableRequest {
    /// The job's id; required.
    #[serde(rename = "JobID", deserialize_with = "or_default")]
    pub job_id: String,
    #[serde(deserialize_with = "or_default")]
    pub job_version: u64,
    #[serde(deserialize_with = "or_default")]
    pub stable: bool,
}

/// The body of [`super::TagVersion`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TagRequest {
    /// The version; absent or null = the newest.
    pub version: Option<u64>,
    /// The purpose of the tag, for people.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
}
