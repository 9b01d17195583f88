//! Reports to the control plane: newest wins, urgent first.

use std::collections::BTreeMap;

use protocol_model::{ClientStatus, TaskState};
use serde::{Deserialize, Serialize};

/// What the control plane has recorded of an allocation, as far as its node reports it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AckedState {
    /// Its client status.
    pub client_status: ClientStatus,
    /// Why, for people.
    pub client_description: String,
    /// Its tasks' states, without their events.
    pub task_states: BTreeMap<String, TaskState>,
    /// Its health.
    pub healthy: Option<bool>,
}
