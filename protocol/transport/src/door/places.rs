//! How many sessions are made at a time: more while each is soon made, fewer while they take long
//! or while heartbeats wait. Additive increase, multiplicative decrease (Chiu and Jain, 1989) finds
//! what servers and nodes of any speed can do. More than that at a time make each of them slower
//! and all of them no faster, until nodes give up what was begun.

use std::time::Duration;

const AT_FIRST: u32 = 32;
/// Progress never stops, however late the server is.
const MIN: u32 = 2;
const MAX: u32 = 512;
/// A session that takes no longer is soon made: five round trips of 200 ms.
const SOON: Duration = Duration::from_millis(1_000);
/// A session that takes longer has others in its way: nodes wait five seconds for an answer.
const SLOW: Duration = Duration::from_millis(2_500);
/// Below this delay of what the server receives there may be more.
const SHORT: Duration = Duration::from_millis(60);
/// Above it there are fewer: half of what makes a server late.
const LONG: Duration = Duration::from_millis(250);
/// Between two decreases: what was begun before has to end first.
const PAUSE: Duration = Duration::from_millis(500);
/// Sessions that are soon made for one more place.
const ENDED_PER_PLACE: u32 = 4;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Places {
    count: u32,
    /// Sessions that were soon made since the last change.
    soon: u32,
    delay: Duration,
    decreased_at: Option<Duration>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            count: AT_FIRST,
            soon: 0,
            delay: Duration::ZERO,
            decreased_at: None,
        }
    }
}

impl Places {
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// A session is live after this time. Where no node waits for its place there are enough.
    pub(super) fn on_live(&mut self, took: Duration, wanted: bool, now: Duration) {
        if took > SLOW {
            self.decrease(now);
        } else if !wanted || took > SOON || self.delay > SHORT {
            self.soon = 0;
        } else {
            self.soon += 1;
            if self.soon >= ENDED_PER_PLACE {
                self.soon = 0;
                self.count = (self.count + 1).min(MAX);
            }
        }
    }

    pub(super) fn on_delay(&mut self, delay: Duration, now: Duration) {
        self.delay = delay;
        if delay > LONG {
            self.decrease(now);
        }
    }

    fn decrease(&mut self, now: Duration) {
        self.soon = 0;
        let rests = |at: Duration| now.saturating_sub(at) < PAUSE;
        if !self.decreased_at.is_some_and(rests) {
            self.count = (self.count * 3 / 4).max(MIN);
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
    fn a_server_in_time_serves_more_at_a_time_and_a_late_one_fewer() {
        let mut places = Places::default();
        for _ in 0..4 {
            places.on_live(ms(1_000), true, ms(0));
        }
        assert_eq!(places.count(), 33);
        places.on_live(ms(1_000), false, ms(0));
        places.on_delay(ms(251), ms(1_000));
        places.on_delay(ms(400), ms(1_499));
        assert_eq!(places.count(), 24, "once in half a second");
        places.on_delay(ms(400), ms(1_500));
        assert_eq!(places.count(), 18);
        for _ in 0..100 {
            places.on_live(ms(1), true, ms(1_600));
        }
        assert_eq!(places.count(), 18, "not while it is late");
    }

    #[test]
    fn sessions_that_take_long_are_made_fewer_at_a_time() {
        let mut places = Places::default();
        for _ in 0..100 {
            places.on_live(ms(1_001), true, ms(0));
        }
        assert_eq!(places.count(), 32);
        places.on_live(ms(2_501), true, ms(1_000));
        places.on_live(ms(2_501), true, ms(1_100));
        assert_eq!(places.count(), 24);
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
            places.on_live(ms(1), true, ms(200_000));
        }
        assert_eq!(places.count(), 512);
    }
}
