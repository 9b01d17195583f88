//! Whether the control plane has what the node says of itself.
//!
//! ```text
//!            sent              acknowledged
//!   owed ----------> sent --------------------> told
//!    ^ ^              |  \ changed               |
//!    | |   ended      |   v                      | changed
//!    | +--------------+  sent, stale ----+       |
//!    |                         acknowledged, ended|
//!    +------------------------------------+------+
//! ```

/// Where the newest facts are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Facts {
    /// On this node only.
    Owed,
    /// On their way: nothing else is sent before they are acknowledged.
    Sent,
    /// Older ones are on their way.
    SentStale,
    /// Recorded by the control plane.
    Told,
}

impl Facts {
    /// The node has other facts than before.
    pub(super) fn on_changed(&mut self) {
        *self = match *self {
            Self::Owed | Self::Told => Self::Owed,
            Self::Sent | Self::SentStale => Self::SentStale,
        };
    }

    /// The newest facts were sent.
    pub(super) fn on_sent(&mut self) {
        *self = Self::Sent;
    }

    /// What was sent is recorded.
    pub(super) fn on_acknowledged(&mut self) {
        *self = match *self {
            Self::Sent | Self::Told => Self::Told,
            Self::SentStale | Self::Owed => Self::Owed,
        };
    }

    /// Nobody knows what became of what was sent.
    pub(super) fn on_uncertain(&mut self) {
        *self = match *self {
            Self::Told => Self::Told,
            Self::Owed | Self::Sent | Self::SentStale => Self::Owed,
        };
    }
}
