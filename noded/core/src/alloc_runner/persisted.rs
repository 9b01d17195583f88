//! What of an allocation survives the daemon.

use protocol_model::{DeploymentId, UnixNanos};

use crate::alloc_resources::AllocResources;
use serde::{Deserialize, Serialize};

/// What of an allocation as a whole survives the daemon.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistedAlloc {
    /// Its health, once decided.
    pub health: Option<PersistedHealth>,
    /// Whether it was being stopped because the control plane had not confirmed this node in time:
    /// nothing else says so after a restart of the daemon.
    pub lease_expired: bool,
    /// The results of preparing it; of another boot of the host nothing is left of that.
    #[serde(skip_serializing_if = "AllocResources::is_empty")]
    pub resources: AllocResources,
    /// Why tasks may not start yet.
    #[serde(skip_serializing_if = "StartHold::is_free")]
    pub hold: StartHold,
}

/// An allocation's health, once decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PersistedHealth {
    /// Healthy or not.
    pub healthy: bool,
    /// Since when.
    pub at: UnixNanos,
    /// The deployment that waited for it, if any did: another one asks anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentId>,
}

/// Why tasks may not start although everything else permits it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartHold {
    /// They may.
    #[default]
    Free,
    /// After a restart of the host: the control plane may have moved the work elsewhere meanwhile.
    UntilTold,
}

impl StartHold {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands out references"
    )]
    fn is_free(&self) -> bool {
        *self == Self::Free
    }
}
