//! How many sessions are made at a time: more while the server reads at once what it receives,
//! fewer while heartbeats of those that have a session wait. Additive increase, multiplicative
//! decrease (Chiu and Jain, 1989): it finds what a server of any speed can do.

use std::time::Duration;

const AT_FIRST: u32 = 32;
/// Progress never stops, however late the server is.
const MIN: u32 = 2;
const MAX: u32 = 512;
/// Below this delay there may be more.
const SHORT: Duration = Duration::from_millis(60);
/// Above it there are fewer: half of what makes a server late.
const LONG: Duration = Duration::from_millis(250);
/// Between two decreases: what was begun before has to end first.
const PAUSE: Duration = Duration::from_millis(500);
/// Sessions that ended well enough for one more place.
const ENDED_PER_PLACE: u32 = 4;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Places {
    count: u32,
    /// Those that ended since the last increase.
    ended: u32,
    delay: Duration,
    decreased_at: Option<Duration>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            count: AT_FIRST,
            ended: 0,
            delay: Duration::ZERO,
            decreased_at: None,
        }
    }
}

impl Places {
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// One is free again. Where nobody waits for it there are enough.
    pub(super) fn on_ended(&mut self, wanted: bool) {
        if !wanted || self.delay > SHORT {
            self.ended = 0;
            return;
        }
        self.ended += 1;
        if self.ended >= ENDED_PER_PLACE {
            self.ended = 0;
            self.count = (self.count + 1).min(MAX);
        }
    }

    pub(super) fn on_delay(&mut self, delay: Duration, now: Duration) {
        self.delay = delay;
        let rests = |at: Duration| now.saturating_sub(at) < PAUSE;
        if delay > LONG && !self.decreased_at.is_some_and(rests) {
            self.count = (self.count / 2).max(MIN);
            self.decreased_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_server_in_time_serves_more_at_a_time_and_a_late_one_half_as_many() {
        let mut places = Places::default();
        for _ in 0..4 {
            places.on_ended(true);
        }
        assert_eq!(places.count(), 33);
        places.on_ended(false);
        places.on_delay(ms(251), ms(1_000));
        places.on_delay(ms(400), ms(1_499));
        assert_eq!(places.count(), 16, "once in half a second");
        places.on_delay(ms(400), ms(1_500));
        assert_eq!(places.count(), 8);
        for _ in 0..100 {
            places.on_ended(true);
        }
        assert_eq!(places.count(), 8, "not while it is late");
    }

    #[test]
    fn there_are_always_some_and_never_too_many() {
        let mut places = Places::default();
        for second in 0..100 {
            places.on_delay(ms(5_000), ms(1_000 * second));
        }
        assert_eq!(places.count(), 2);
        places.on_delay(ms(0), ms(200_000));
        for _ in 0..10_000 {
            places.on_ended(true);
        }
        assert_eq!(places.count(), 512);
    }
}
