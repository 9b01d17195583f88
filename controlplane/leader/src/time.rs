//! The two clocks that the leader's parts are told.

use std::time::Duration;

use protocol_model::UnixNanos;

/// A moment: never read here, always an argument.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Now {
    /// Since the process started; never goes back. Timers run on it.
    pub monotonic: Duration,
    /// By the wall clock, which may jump. Only what the state stamps is compared with it.
    pub wall: UnixNanos,
}

impl Now {
    /// The same moment, `later`.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        Self {
            monotonic: self.monotonic + later,
            wall: self.wall.saturating_add(later),
        }
    }

    /// When, by the monotonic clock, the wall clock will say `at`, if it does not jump.
    pub fn monotonic_of(self, at: UnixNanos) -> Duration {
        self.monotonic + at.saturating_since(self.wall)
    }
}
