//! One allocation on this node.

use serde::{Deserialize, Serialize};

/// What of an allocation as a whole survives the daemon.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistedAlloc {
    /// Its health, once decided.
    pub health: Option<PersistedHealth>,
}

/// An allocation's health, once decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PersistedHealth {
    /// Healthy or not.
    pub healthy: bool,
    /// Since when.
    pub at: protocol_model::UnixNanos,
}
