//! The two clocks: one to decide by, one to show.

use serde::{Deserialize, Serialize};

/// Wall-clock time in nanoseconds since 1970, for people to read; never used to order or to fence
/// anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnixNanos(pub u64);

/// CLOCK_BOOTTIME in nanoseconds: goes on while the host sleeps, never back, and is the same for
/// noded and keeper. What is to happen at one of these happens then, whoever has died meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BootNanos(pub u64);

impl BootNanos {
    /// Later by a span; the end of time is never passed.
    #[must_use]
    pub fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Later by milliseconds.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        self.plus(Self(millis.saturating_mul(1_000_000)))
    }
}
