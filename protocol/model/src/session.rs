//! Words of sessions that servers and nodes share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a node's session: the log index of the command that made it. 0 = none.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SessionEpoch(pub u64);

impl SessionEpoch {
    /// No session.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for SessionEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a node's daemon is the process that had the last session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DaemonLife {
    /// The same process: its session may be resumed.
    Continued,
    /// A restarted one: it never resumes.
    Restarted,
}

impl DaemonLife {
    /// The life that a message tells as a flag.
    pub fn of_restarted(restarted: bool) -> Self {
        if restarted {
            Self::Restarted
        } else {
            Self::Continued
        }
    }

    /// The flag of a message.
    pub fn is_restarted(self) -> bool {
        self == Self::Restarted
    }
}
