//! Virtual time: nanoseconds since the run began. Nobody in the world reads another clock, and
//! every party has its own view of this one.

use std::time::Duration;

use protocol_model::UnixNanos;

/// Nanoseconds of the run.
pub type Nanos = u64;

/// A microsecond.
pub const MICRO: Nanos = 1_000;
/// A millisecond.
pub const MILLI: Nanos = 1_000_000;
/// A second.
pub const SECOND: Nanos = 1_000_000_000;

/// What every wall clock says when the run begins, give or take its skew.
const WALL_AT_START: i64 = 1_700_000_000_000_000_000;

/// A wall clock that is `skew` nanoseconds off.
pub fn wall(now: Nanos, skew: i64) -> UnixNanos {
    UnixNanos(
        WALL_AT_START
            .saturating_add(i64::try_from(now).unwrap_or(i64::MAX))
            .saturating_add(skew),
    )
}

/// A duration in nanoseconds.
pub fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The time, as people read it in a trace.
pub fn show(now: Nanos) -> String {
    format!("{:>5}.{:06}", now / SECOND, now % SECOND / MICRO)
}
