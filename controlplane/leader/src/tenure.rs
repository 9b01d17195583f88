//! For how long nodes have been able to come back: somebody led all the time, whoever it was.
//!
//! A leader tells it to the other servers, and the next one goes on where it ended: nodes that are
//! back need no more time than an election takes. Where nobody led for long, nodes have tried in
//! vain and more and more rarely, and need [`time_to_return`](protocol_model::reconnect): until it
//! is over, they may just have begun to wait once more whenever somebody does not lead for a
//! moment, so that it begins anew.

use std::time::Duration;

/// How long nobody may lead where nodes have come back: until then they try again within two
/// seconds.
pub const GAP_MAX: Duration = Duration::from_secs(5);
/// And before that: servers refuse hardly anybody so soon.
pub const GAP_MAX_BEFORE: Duration = Duration::from_secs(1);
/// How long somebody has to lead after a gap that is longer, for the next one to be one by itself.
const BETWEEN: Duration = Duration::from_secs(2);

/// What a server knows of it: nothing, when it was just started. In spans of its own clock;
/// `complete` is how long nodes need to come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tenure {
    /// What it was then, and when.
    counted: Option<(Duration, Duration)>,
    /// When somebody was known to lead last.
    last: Duration,
}

impl Tenure {
    /// This server leads now, with a majority. To be told more often than [`GAP_MAX_BEFORE`].
    pub fn led(&mut self, now: Duration, complete: Duration) {
        if self.ended(now, complete) {
            self.counted = Some((Duration::ZERO, now));
        } else if now >= self.last + GAP_MAX_BEFORE {
            let lasted = self.until(now).min(complete.saturating_sub(BETWEEN));
            self.counted = Some((lasted, now));
        }
        self.last = now;
    }

    /// A leader with a majority says now that it is `lasted`.
    pub fn told(&mut self, lasted: Duration, now: Duration) {
        self.counted = Some((lasted, now));
        self.last = now;
    }

    /// For how long somebody has led; nothing where nobody did for too long, or nobody knows.
    pub fn lasted(&self, now: Duration, complete: Duration) -> Duration {
        if self.ended(now, complete) {
            Duration::ZERO
        } else {
            self.until(now)
        }
    }

    fn ended(&self, now: Duration, complete: Duration) -> bool {
        let gap_max = if self.until(self.last) >= complete {
            GAP_MAX
        } else {
            GAP_MAX_BEFORE
        };
        self.counted.is_none() || now >= self.last + gap_max
    }

    fn until(&self, at: Duration) -> Duration {
        let (lasted, then) = self.counted.unwrap_or_default();
        lasted + at.saturating_sub(then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: Duration = Duration::from_secs(20);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Led from `from` on until `until`, all the time.
    fn lead(tenure: &mut Tenure, from: u64, until: u64) {
        for at in (from..=until).step_by(500) {
            tenure.led(ms(at), COMPLETE);
        }
    }

    #[test]
    fn elections_do_not_end_it_once_nodes_are_back() {
        let mut tenure = Tenure::default();
        assert_eq!(tenure.lasted(ms(60_000), COMPLETE), Duration::ZERO);
        lead(&mut tenure, 60_000, 80_000);
        assert_eq!(tenure.lasted(ms(84_999), COMPLETE), ms(24_999));
        lead(&mut tenure, 84_999, 90_000);
        // 18 s once more, and five.
        assert_eq!(tenure.lasted(ms(90_499), COMPLETE), ms(23_500));
        assert_eq!(tenure.lasted(ms(94_499), COMPLETE), ms(27_500));
        assert_eq!(tenure.lasted(ms(95_000), COMPLETE), Duration::ZERO);
        lead(&mut tenure, 95_500, 96_000);
        assert_eq!(tenure.lasted(ms(96_000), COMPLETE), ms(500));
    }

    #[test]
    fn elections_one_after_the_other_are_one_long_gap() {
        let mut tenure = Tenure::default();
        lead(&mut tenure, 0, 60_000);
        lead(&mut tenure, 63_000, 64_500);
        assert_eq!(tenure.lasted(ms(65_400), COMPLETE), ms(20_400));
        assert_eq!(tenure.lasted(ms(66_000), COMPLETE), Duration::ZERO);
        lead(&mut tenure, 67_500, 68_000);
        assert_eq!(tenure.lasted(ms(68_000), COMPLETE), ms(500));
    }

    #[test]
    fn a_moment_without_a_leader_begins_it_anew_while_nodes_are_coming_back() {
        let mut tenure = Tenure::default();
        lead(&mut tenure, 0, 19_500);
        assert_eq!(tenure.lasted(ms(20_499), COMPLETE), ms(20_499));
        lead(&mut tenure, 20_500, 21_000);
        assert_eq!(tenure.lasted(ms(21_000), COMPLETE), ms(500));
    }

    #[test]
    fn a_server_that_was_just_started_goes_on_with_what_the_leader_says() {
        let mut tenure = Tenure::default();
        tenure.told(ms(3_600_000), ms(1_000));
        assert_eq!(tenure.lasted(ms(3_000), COMPLETE), ms(3_602_000));
        tenure.told(ms(200), ms(4_000));
        assert_eq!(tenure.lasted(ms(4_500), COMPLETE), ms(700));
        assert_eq!(tenure.lasted(ms(5_000), COMPLETE), Duration::ZERO);
    }
}
