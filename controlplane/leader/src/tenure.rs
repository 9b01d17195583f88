//! For how long nodes have been able to come back: somebody led all the time, whoever it was.
//!
//! A leader that follows another one at once has what the other one had. Where nobody led for a
//! while, nodes have tried in vain and more and more rarely, and a leader that does not last does
//! not give them less time: the next one goes on where it ended.

use std::time::Duration;

/// How long nobody may lead for nodes to be as well as if somebody had: until then they try again
/// within two seconds.
pub const GAP_MAX: Duration = Duration::from_secs(5);

/// What a server knows of it: nothing, when it was just started. In spans of its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tenure {
    since: Option<Duration>,
    last: Duration,
}

impl Tenure {
    /// Somebody led at `at`, with a majority. To be told more often than [`GAP_MAX`].
    pub fn led(&mut self, at: Duration) {
        if self.since.is_none() || at >= self.last + GAP_MAX {
            self.since = Some(at);
        }
        self.last = self.last.max(at);
    }

    /// For how long somebody has led; nothing where nobody did for [`GAP_MAX`], or nobody knows.
    pub fn lasted(&self, now: Duration) -> Duration {
        match self.since {
            Some(since) if now < self.last + GAP_MAX => now.saturating_sub(since),
            Some(_) | None => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn short_gaps_do_not_end_it_and_a_long_one_does() {
        let mut tenure = Tenure::default();
        assert_eq!(tenure.lasted(seconds(60)), Duration::ZERO);
        for at in [60, 64, 68] {
            tenure.led(seconds(at));
        }
        assert_eq!(tenure.lasted(seconds(72)), seconds(12));
        assert_eq!(tenure.lasted(seconds(73)), Duration::ZERO);
        tenure.led(seconds(73));
        tenure.led(seconds(75));
        assert_eq!(tenure.lasted(seconds(76)), seconds(3));
    }

    #[test]
    fn what_is_told_late_changes_nothing() {
        let mut tenure = Tenure::default();
        tenure.led(seconds(10));
        tenure.led(seconds(14));
        tenure.led(seconds(11));
        assert_eq!(tenure.lasted(seconds(18)), seconds(8));
    }
}
