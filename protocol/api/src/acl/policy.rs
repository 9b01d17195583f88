//! Policies: names for sets of rules.

use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};

/// The workloads whose identities a policy joins. Each field but the first needs the one before.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobAcl {
    /// The namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// The job; empty = every job of the namespace.
    #[serde(rename = "JobID", deserialize_with = "or_default")]
    pub job_id: String,
    /// The group; empty = every group of the job.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// The task; empty = every task of the group.
    #[serde(deserialize_with = "or_default")]
    pub task: String,
}

/// The body of [`super::UpdatePolicy`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PolicyRequest {
    /// Its name: letters, digits, hyphens, 128 bytes at most. Empty = the path's.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// A description of 256 bytes at most.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// The rules: HCL or JSON of 64 KiB at most. Empty = no rights.
    #[serde(deserialize_with = "or_default")]
    pub rules: String,
    /// The workloads that it joins.
    #[serde(rename = "JobACL", skip_serializing_if = "Option::is_none")]
    pub job_acl: Option<JobAcl>,
}

/// A policy.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Policy {
    pub name: String,
    pub description: String,
    /// The text as it was written.
    pub rules: String,
    /// The workloads that it joins.
    #[serde(rename = "JobACL")]
    pub job_acl: Option<JobAcl>,
    /// SHA-256 of what is written, base64.
    pub hash: String,
    pub create_index: u64,
    pub modify_index: u64,
}

/// A policy in lists.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PolicyStub {
    pub name: String,
    pub description: String,
    /// The workloads that it joins.
    #[serde(rename = "JobACL")]
    pub job_acl: Option<JobAcl>,
    /// As in [`Policy`].
    pub hash: String,
    pub create_index: u64,
    pub modify_index: u64,
}
