//! Secrets that are fetched before a task starts and that its interpolations may use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::nullable;
use crate::nullable::or_default;

/// A secret that is fetched before the task starts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Secret {
    /// The name that interpolations use.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Where it comes from: `nomad`, `vault`, or a plugin.
    #[serde(deserialize_with = "or_default")]
    pub provider: String,
    /// Its path there.
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    /// The provider's settings.
    #[serde(with = "nullable")]
    pub config: BTreeMap<String, serde_json::Value>,
    /// Environment of a provider that is a plugin.
    #[serde(with = "nullable")]
    pub env: BTreeMap<String, String>,
}
