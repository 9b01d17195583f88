//! Results of preparing an allocation: set as a whole by one answer, kept in the journal.

use protocol_model::NetworkStatus;
use serde::{Deserialize, Serialize};

/// The things that the hooks of an allocation made for its tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocResources {
    /// Its network, where it has an address of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatus>,
}

impl AllocResources {
    /// Whether there is nothing: a record need not say so.
    pub fn is_empty(&self) -> bool {
        self.network.is_none()
    }
}
