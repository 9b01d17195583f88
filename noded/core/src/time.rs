//! Time as data: the core never reads a clock, so every entry point takes `now: Now`, last.
//!
//! Two clocks travel together. Deadlines are points on the monotonic one; the wall clock only
//! stamps what people and the API read, and may jump without moving any deadline.

use std::time::Duration;

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};

/// A point on the node's monotonic clock: a reading of `CLOCK_BOOTTIME`, which goes on while the
/// host sleeps and starts again at zero with every boot.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Moment(pub Duration);

impl Moment {
    /// The point `duration` later, saturating.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// The time since `earlier`; zero where `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Nanoseconds since the clock's zero, as heartbeats carry them.
    pub fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The present, as the shell read it from both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// For deadlines.
    pub moment: Moment,
    /// For timestamps.
    pub wall: UnixNanos,
}

impl Now {
    /// The present by both clocks.
    pub fn new(moment: Moment, wall: UnixNanos) -> Self {
        Self { moment, wall }
    }
}

/// The earlier of two deadlines, where there is one.
pub(crate) fn earliest(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
