//! When the session's server is trouble: silent for so long, or cut off from the leader, that
//! another one is asked, and how soon the way there has to be made.

use std::time::Duration;

use super::{RETRY_DEFAULT, Session};
use crate::pseudo_random::{halves, mix, part_of};
use crate::time::{Moment, Now};

/// How long the session's server may be silent before the other one is asked. The leader gives a
/// node up after 2.6 s.
const WORRY_AFTER: Duration = Duration::from_millis(800);
/// The same at most, for a session that had to ask of late: where every server is slow, to go from
/// one to the other makes all of them slower.
const WORRY_AFTER_MAX: Duration = Duration::from_millis(1_800);
/// For how long that is remembered.
const WORRY_MEMORY: Duration = Duration::from_secs(30);
/// As often has a heartbeat gone unanswered by then, where they are rare.
const WORRY_HEARTBEATS: u32 = 2;

/// How often another server was asked of late because the session's was silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Worries {
    count: u32,
    last: Option<Moment>,
}

impl Worries {
    pub(super) fn on_worry(&mut self, now: Now) {
        if self.are_over(now.moment) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last = Some(now.moment);
    }

    fn are_over(self, at: Moment) -> bool {
        self.last.is_none_or(|last| at.since(last) >= WORRY_MEMORY)
    }

    /// How long a server that was heard at `heard` may be silent: half as long again with each.
    fn after(self, heard: Moment) -> Duration {
        if self.are_over(heard) {
            return WORRY_AFTER;
        }
        let longer = WORRY_AFTER * 3_u32.pow(self.count.min(3)) / 2_u32.pow(self.count.min(3));
        longer.min(WORRY_AFTER_MAX)
    }
}

impl Session {
    /// When a second connection is made where there is none `since` then and the next attempt is
    /// due at `retry_at`.
    pub(super) fn standby_wanted_at(&self, since: Moment, retry_at: Moment) -> Moment {
        if self.servers == 1 {
            // To the only server there is a second one only where the first may be dead, and not
            // where the server is only slow: to come twice makes it slower.
            return retry_at.max(self.unheard_at(WORRY_AFTER_MAX));
        }
        let trouble = self.trouble_at();
        if trouble > since {
            // However long earlier failures let it wait: now it is needed. Not by all nodes of the
            // server at one moment.
            let number = mix(halves(&self.seed).0, self.newest.0);
            retry_at.min(trouble.after(part_of(RETRY_DEFAULT, number)))
        } else {
            retry_at
        }
    }

    /// Since when the session's server is of no use, or will be if it stays silent.
    fn trouble_at(&self) -> Moment {
        let silent = self.worry_at();
        self.cut_off_at.map_or(silent, |at| at.min(silent))
    }

    /// When the session's server will have been silent for long enough to ask another one.
    pub(super) fn worry_at(&self) -> Moment {
        self.unheard_at(self.worries.after(self.last_heard))
    }

    /// Whether the session's server has been silent for long enough to ask another one, had nothing
    /// been asked of late.
    pub(super) fn is_silent(&self, now: Now) -> bool {
        self.unheard_at(WORRY_AFTER) <= now.moment
    }

    /// When the server will have been silent for `span`, or longer where heartbeats are so rare
    /// that it could not have answered enough of them.
    fn unheard_at(&self, span: Duration) -> Moment {
        let silence = self.pulse.unheard_for(span, WORRY_HEARTBEATS);
        // A node that is late itself has not asked so often yet.
        let asked = self.pulse.unanswered_at(WORRY_HEARTBEATS);
        self.last_heard.after(silence).max(asked)
    }
}
