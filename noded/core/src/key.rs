//! Names of what the core deals with: a task of an allocation, and one attempt to run it.

use std::fmt;

use protocol_model::AllocId;
pub use protocol_model::SessionEpoch;
use serde::{Deserialize, Serialize};

/// The number of an attempt to run a task. Rises with every attempt and is never used twice for
/// the same task, daemon restarts included: it fences late exits and late requests.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RunEpoch(pub u64);

impl RunEpoch {
    /// The number of the next attempt.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The kernel's id of one boot of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(pub [u8; 16]);

/// One attempt to run one task of one allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RunKey {
    /// The allocation.
    pub alloc: AllocId,
    /// The task's name within its group.
    pub task: String,
    /// Which attempt.
    pub epoch: RunEpoch,
}

impl RunKey {
    /// The key of attempt `epoch` of `task` in `alloc`.
    pub fn new(alloc: AllocId, task: impl Into<String>, epoch: RunEpoch) -> Self {
        Self {
            alloc,
            task: task.into(),
            epoch,
        }
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}#{}", self.alloc, self.task, self.epoch.0)
    }
}

/// The number of one connection attempt of the session: events of an older one are dropped.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Attempt(pub u64);

/// The node's place in the cluster's history: what it has been told and has journaled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Watermark {
    /// Which history; `None` before the first watch.
    pub incarnation: Option<protocol_model::Incarnation>,
    /// The index in it.
    pub index: u64,
}
