//! For how long a holder believes in its lock.
//!
//! ```text
//!  sent        next renewal          end: SIGTERM        kill: SIGKILL     ttl
//!   │──────────────│──────────────────────│───────────────────│─────────────│
//!   0            ttl/3                  0.7 ttl            0.85 ttl
//! ```
//!
//! The time counts from the sending of the last request that was acknowledged, not from its answer:
//! the leader counts from later, and gives two TTLs. So the command is dead before another holder
//! can have the lock.

use std::time::Duration;

/// See the module. Times are those of a clock that also counts while the host sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    ttl: Duration,
    /// When the last request that was acknowledged was sent.
    sent: Duration,
    /// When the last request was sent.
    tried: Duration,
    is_lost: bool,
}

/// The step that is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Due {
    /// None.
    Nothing,
    /// Renew the lock.
    Renew,
    /// Ask the command to end.
    End,
    /// Kill the command.
    Kill,
}

impl Hold {
    /// A lock whose acquisition was sent then, and is acknowledged at `now`; `None` where the
    /// answer was under way for so long that no command may begin.
    pub(super) fn acquired(ttl: Duration, sent: Duration, now: Duration) -> Option<Self> {
        let hold = Self {
            ttl,
            sent,
            tried: sent,
            is_lost: false,
        };
        (hold.due(now) < Due::End).then_some(hold)
    }

    /// A renewal is sent.
    pub(super) fn on_sent(&mut self, now: Duration) {
        self.tried = now;
    }

    /// The renewal that was sent then is acknowledged.
    pub(super) fn on_renewed(&mut self, sent: Duration) {
        self.sent = self.sent.max(sent);
    }

    /// Another one has the lock, or its time is over.
    pub(super) fn on_lost(&mut self) {
        self.is_lost = true;
    }

    /// The step that is due at `now`.
    pub(super) fn due(&self, now: Duration) -> Due {
        let held = now.saturating_sub(self.sent);
        // A failed renewal is tried again soon.
        let pause = match self.tried > self.sent {
            true => self.ttl / 20,
            false => self.ttl / 3,
        };
        if held >= self.ttl * 17 / 20 {
            Due::Kill
        } else if self.is_lost || held >= self.ttl * 7 / 10 {
            Due::End
        } else if now.saturating_sub(self.tried) >= pause {
            Due::Renew
        } else {
            Due::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(20);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(100 + seconds)
    }

    fn held() -> Hold {
        Hold::acquired(TTL, at(0), at(0)).expect("it was answered at once")
    }

    #[test]
    fn a_lock_whose_answer_came_late_begins_no_command() {
        assert!(Hold::acquired(TTL, at(0), at(13)).is_some());
        assert_eq!(Hold::acquired(TTL, at(0), at(14)), None);
        assert_eq!(Hold::acquired(TTL, at(0), at(60)), None);
    }

    #[test]
    fn a_lock_is_renewed_at_a_third_and_given_up_before_its_ttl() {
        let mut hold = held();
        assert_eq!(hold.due(at(6)), Due::Nothing);
        assert_eq!(hold.due(at(7)), Due::Renew);
        hold.on_sent(at(7));
        assert_eq!(hold.due(at(7)), Due::Nothing);
        assert_eq!(hold.due(at(8)), Due::Renew, "it is tried again");
        assert_eq!(hold.due(at(14)), Due::End);
        assert_eq!(hold.due(at(17)), Due::Kill);
        // After a sleep of the host everything is over at once.
        assert_eq!(hold.due(at(5000)), Due::Kill);
    }

    #[test]
    fn a_renewal_counts_from_its_sending() {
        let mut hold = held();
        hold.on_sent(at(7));
        hold.on_renewed(at(7));
        assert_eq!(hold.due(at(13)), Due::Nothing);
        assert_eq!(hold.due(at(20)), Due::Renew);
        assert_eq!(hold.due(at(21)), Due::End);
        assert_eq!(hold.due(at(24)), Due::Kill);
    }

    #[test]
    fn a_lost_lock_ends_the_command_at_once() {
        let mut hold = held();
        hold.on_lost();
        assert_eq!(hold.due(at(0)), Due::End);
        assert_eq!(hold.due(at(17)), Due::Kill);
    }
}
