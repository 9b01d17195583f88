//! What a task is to others: workload identities, Vault and Consul settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::nullable;
use crate::nullable::or_default;

/// The attribute of nodes that give tasks the tokens of their identities. A node of a release
/// before has none: it would run the task without.
pub const IDENTITY_ATTRIBUTE: &str = "noded.identity";

/// A signed identity that the task may show to others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct WorkloadIdentity {
    /// Its name; `""` becomes `default`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Who it is meant for.
    #[serde(with = "nullable")]
    pub audience: Vec<String>,
    /// What happens when it is renewed: `""`, `noop`, `signal`, `restart`.
    #[serde(deserialize_with = "or_default")]
    pub change_mode: String,
    /// The signal of change mode `signal`.
    #[serde(deserialize_with = "or_default")]
    pub change_signal: String,
    /// Whether it is put in the task's environment.
    #[serde(deserialize_with = "or_default")]
    pub env: bool,
    /// Whether it is written to a file in the task's secrets directory.
    #[serde(deserialize_with = "or_default")]
    pub file: bool,
    /// The path of that file, where it is not the usual one.
    #[serde(deserialize_with = "or_default")]
    pub filepath: String,
    /// The service it belongs to.
    #[serde(deserialize_with = "or_default")]
    pub service_name: String,
    /// How long it is valid; 0 is forever.
    #[serde(rename = "TTL", with = "duration::ns")]
    pub ttl: Duration,
}

/// The Vault token of a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Vault {
    /// Policies of the token.
    #[serde(with = "nullable")]
    pub policies: Vec<String>,
    /// The role it logs in with.
    #[serde(deserialize_with = "or_default")]
    pub role: String,
    /// The Vault namespace.
    pub namespace: Option<String>,
    /// The configured Vault cluster; `""` becomes `default`.
    #[serde(deserialize_with = "or_default")]
    pub cluster: String,
    /// Whether the token is put in the environment; absent becomes true.
    pub env: Option<bool>,
    /// Whether the token is kept out of the task's file system.
    pub disable_file: Option<bool>,
    /// What happens when it changes; absent becomes `restart`.
    pub change_mode: Option<String>,
    /// The signal of change mode `signal`.
    pub change_signal: Option<String>,
    /// Whether the token is not renewed.
    pub allow_token_expiration: Option<bool>,
}

/// Consul settings of a group or task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Consul {
    /// The Consul namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// The configured Consul cluster; `""` becomes `default`.
    #[serde(deserialize_with = "or_default")]
    pub cluster: String,
    /// The Consul partition.
    #[serde(deserialize_with = "or_default")]
    pub partition: String,
}
