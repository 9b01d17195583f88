//! The two clocks that the core's decisions are made of. The loop has them behind an interface, for
//! a process that simulates nodes in a time of its own; spans within the daemon are tokio's time.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use noded_core::{Moment, Now};
use protocol_model::UnixNanos;
use rustix::time::{ClockId, clock_gettime};

/// What tells a node the time.
pub trait Clock: Debug + Send + Sync {
    /// Time that goes on while the host sleeps, from some moment before its boot.
    fn moment(&self) -> Moment;

    /// The wall clock.
    fn wall(&self) -> UnixNanos;

    /// Both.
    fn now(&self) -> Now {
        Now::new(self.moment(), self.wall())
    }
}

/// The host's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn moment(&self) -> Moment {
        moment()
    }

    fn wall(&self) -> UnixNanos {
        wall()
    }
}

/// `CLOCK_BOOTTIME`, which goes on while the host sleeps.
pub fn moment() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Moment(Duration::new(seconds, nanos))
}

/// The wall clock; a clock before 1970 reads as 1970.
pub fn wall() -> UnixNanos {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    UnixNanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
