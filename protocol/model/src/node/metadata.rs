//! The metadata of a node: of its configuration, and as callers changed it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::nullable::or_default;

/// Metadata in the shape of the API (`/v1/client/metadata`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeMetadata {
    /// The metadata that the node reports to the servers: `Static`, changed by `Dynamic`.
    #[serde(deserialize_with = "or_default")]
    pub meta: BTreeMap<String, String>,
    /// Changes by callers; `None` hides a key of the configuration.
    #[serde(deserialize_with = "or_default")]
    pub dynamic: BTreeMap<String, Option<String>>,
    /// The metadata of the node's configuration.
    #[serde(rename = "Static", deserialize_with = "or_default")]
    pub configured: BTreeMap<String, String>,
}
