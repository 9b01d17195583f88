//! One bucket: the generic cell rate algorithm.
//!
//! A bucket is one point in time: when it is full again. A request moves it by one interval; it is
//! refused where that would lead further than the burst beyond `now`. Nothing has to be refilled,
//! and a bucket that is full again is like one that never was.

use std::time::Duration;

use super::limits::Rate;

/// A rate in the units of the algorithm, nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Between two requests.
    interval: u64,
    /// How far ahead a bucket may be: the whole burst.
    ahead_max: u64,
}

impl Pace {
    /// `None` for a rate that allows nothing.
    fn of(rate: Rate) -> Option<Self> {
        let interval = nanos(rate.per).checked_div(u64::from(rate.requests))?;
        let burst = u64::from(rate.burst.max(1));
        Some(Self {
            interval,
            ahead_max: interval.saturating_mul(burst),
        })
    }
}

/// When a bucket is full again, in nanoseconds of the caller's monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct FullAt(u64);

impl FullAt {
    /// Takes one request, or says after how long one would be taken.
    pub(super) fn take(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        let Some(pace) = Pace::of(rate) else {
            return Err(rate.per);
        };
        let now = nanos(now);
        let next = self.0.max(now).saturating_add(pace.interval);
        let latest = now.saturating_add(pace.ahead_max);
        if next > latest {
            return Err(Duration::from_nanos(next - latest));
        }
        self.0 = next;
        Ok(())
    }

    /// How many requests would be taken at once.
    pub(super) fn left(self, rate: Rate, now: Duration) -> u32 {
        let Some(pace) = Pace::of(rate) else {
            return 0;
        };
        let ahead = self.0.saturating_sub(nanos(now));
        let room = pace.ahead_max.saturating_sub(ahead);
        let left = room.checked_div(pace.interval);
        left.map_or(rate.burst, |left| u32::try_from(left).unwrap_or(u32::MAX))
    }

    pub(super) fn is_full(self, now: Duration) -> bool {
        self.0 <= nanos(now)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
