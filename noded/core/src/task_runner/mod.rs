//! One task of one allocation, from its first preparation to its end.

use std::collections::BTreeSet;

use protocol_model::TaskState;
use serde::{Deserialize, Serialize};

pub mod restart_policy;

use crate::effect::Hook;
use crate::key::RunEpoch;
use restart_policy::RestartTracker;

/// What of a task survives the daemon.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistedTask {
    /// The number of the newest attempt.
    pub epoch: RunEpoch,
    /// Whether that attempt may still be alive.
    pub attempt: AttemptState,
    /// The state that the API shows.
    pub state: TaskState,
    /// The restart policy's memory.
    pub restarts: RestartTracker,
    /// Hooks that were done once and for all.
    pub prepared: BTreeSet<Hook>,
}

/// Whether the newest attempt may still be alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Its end is recorded, or there was none.
    #[default]
    Over,
    /// It was asked for, and its end is not recorded.
    Open,
}
