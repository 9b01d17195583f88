//! The pace of heartbeats that a server asks of its nodes: none while it reads at once what it
//! receives, and ever longer while it does not. Nodes that are in doubt send heartbeats four times
//! as often; where a server is only late, all of them are, and what they send would keep it late.

use std::time::Duration;

/// The first pace that is asked; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(250);
/// As often it is doubled: four seconds.
const DOUBLED_MAX: u32 = 4;
/// A delay that is too long: most of the interval between heartbeats where anything is in doubt.
const LONG: Duration = Duration::from_millis(100);
/// A delay that is short enough for more heartbeats.
const SHORT: Duration = Duration::from_millis(40);
/// Until nodes have heard of a longer pace, and it shows.
const SLOWER_AFTER: Duration = Duration::from_secs(1);
/// For so long the delay is short before a shorter pace is tried. Longer than the longest pace:
/// every node has heard of a pace by then.
const FASTER_AFTER: Duration = Duration::from_secs(6);

/// See the top of this file.
#[derive(Debug, Default)]
pub struct Pace {
    /// 0 = none is asked.
    step: u32,
    changed: Option<Duration>,
    /// Since when the delay has been short.
    short_since: Option<Duration>,
}

impl Pace {
    /// Notes that received packets wait for `delay` before they are read. `now` is of a clock that
    /// never goes back.
    pub fn on_delay(&mut self, delay: Duration, now: Duration) {
        let lasts = |since: Option<Duration>, span| {
            since.is_none_or(|since| now.saturating_sub(since) >= span)
        };
        if delay > SHORT {
            self.short_since = None;
        } else {
            self.short_since.get_or_insert(now);
        }
        if delay > LONG && self.step <= DOUBLED_MAX && lasts(self.changed, SLOWER_AFTER) {
            self.step += 1;
            self.changed = Some(now);
        } else if self.step > 0
            && self.short_since.is_some()
            && lasts(self.short_since, FASTER_AFTER)
        {
            self.step -= 1;
            self.changed = Some(now);
            self.short_since = Some(now);
        }
    }

    /// The pace that is asked now; zero = none.
    pub fn now(&self) -> Duration {
        match self.step.checked_sub(1) {
            None => Duration::ZERO,
            Some(doubled) => FIRST * 2_u32.pow(doubled),
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
    fn the_pace_doubles_each_second_of_a_long_delay_and_halves_each_six() {
        let mut pace = Pace::default();
        let mut asked = Vec::new();
        for tenth in 0..70 {
            pace.on_delay(ms(101), ms(100 * tenth));
            asked.push(pace.now().as_millis());
        }
        asked.dedup();
        assert_eq!(asked, [250, 500, 1_000, 2_000, 4_000]);
        let mut asked = Vec::new();
        for tenth in 70..400 {
            pace.on_delay(ms(40), ms(100 * tenth));
            asked.push(pace.now().as_millis());
        }
        assert_eq!(asked.iter().filter(|pace| **pace == 2_000).count(), 60);
        asked.dedup();
        assert_eq!(asked, [4_000, 2_000, 1_000, 500, 250, 0]);
    }

    #[test]
    fn a_delay_between_long_and_short_changes_nothing() {
        let mut pace = Pace::default();
        pace.on_delay(ms(500), ms(0));
        for tenth in 1..200 {
            pace.on_delay(ms(41 + tenth % 60), ms(100 * tenth));
        }
        assert_eq!(pace.now(), FIRST);
    }
}
