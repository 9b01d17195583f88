//! The standby: a connection to another server, handshaken and without a session, so that the
//! session can move before anybody thinks the node silent.
//!
//! ```text
//!   live --a moment--> connecting ---> ready --its server is silent or cut off---> greeting
//!                          ^             |                                            |
//!                          +--- lost ----+-- the first connection is lost:            |
//!                                            it takes its place                       |
//!                                            Welcome: the session goes on here <------+
//! ```
//!
//! The first connection stays until the other server has said Welcome: where it was only slow, and
//! the other server refuses, nothing is lost.

use std::time::Duration;

use protocol_model::reconnect::RETRY_MAX;

use super::trials::PATIENCE;
use super::{RETRY_DEFAULT, Session, SessionPhase};
use crate::effect::{DisconnectReason, Durability, Effect, ServerChoice, Wish};
use crate::event::Ending;
use crate::key::Attempt;
use crate::outbox::Outbox;
use crate::pseudo_random::{halves, mix, part_of};
use crate::time::{Moment, Now};

/// How long a session is live before the second connection is made: where everybody comes back at
/// once, those who have no session yet go first. One that is needed sooner is made at once.
const STANDBY_AFTER: Duration = Duration::from_secs(2);
/// How much longer, at most: nodes that came together do not make it together.
const STANDBY_SPREAD: Duration = Duration::from_secs(2);
/// How long one that failed is left alone, at first.
const STANDBY_RETRY: Duration = Duration::from_secs(1);
/// How long a connection has to stand to be none that failed.
const STOOD: Duration = Duration::from_secs(2);
/// How long the other server may take to answer a Hello. It may be gone for a while without a sign
/// of it, and the node must have the time to try the next one.
const WELCOME_LIMIT: Duration = Duration::from_millis(1_500);

/// Where the second connection stands. There is one only while the session is live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standby {
    /// There is none.
    None {
        /// When the last one was lost, or the session became live.
        since: Moment,
        /// When one is made; `None` = when the session is live.
        retry_at: Option<Moment>,
    },
    /// It is being made.
    Connecting {
        attempt: Attempt,
        server: usize,
        deadline: Moment,
    },
    /// It stands.
    Ready {
        attempt: Attempt,
        server: usize,
        since: Moment,
    },
    /// Hello was sent on it.
    Greeting {
        attempt: Attempt,
        server: usize,
        deadline: Moment,
    },
}

impl Standby {
    fn attempt(self) -> Option<Attempt> {
        match self {
            Self::None { .. } => None,
            Self::Connecting { attempt, .. }
            | Self::Ready { attempt, .. }
            | Self::Greeting { attempt, .. } => Some(attempt),
        }
    }
}

impl Session {
    /// Whether an attempt is the second connection's.
    pub(crate) fn is_standby(&self, attempt: Attempt) -> bool {
        self.standby.attempt() == Some(attempt)
    }

    /// The session is live: the second connection is due soon.
    pub(super) fn plan_standby(&mut self) {
        self.standby_failures = 0;
        self.cut_off_at = None;
        let number = mix(halves(&self.seed).0, self.newest.0);
        let since = self.last_heard;
        let spread = part_of(STANDBY_SPREAD, number);
        let retry_at = Some(since.after(STANDBY_AFTER + spread));
        self.standby = Standby::None { since, retry_at };
    }

    /// Makes it, gives it up, or greets on it, where that is due.
    pub(super) fn tend_standby(&mut self, out: &mut Outbox, now: Now) {
        let SessionPhase::Live { .. } = self.phase else {
            return;
        };
        match self.standby {
            Standby::None { .. } if self.standby_due().is_some_and(|at| at <= now.moment) => {
                self.connect_standby(out, now);
            }
            Standby::Ready { .. } if self.worry_at() <= now.moment => {
                self.worries.on_worry(now);
                self.greet_standby(out, now);
            }
            Standby::Connecting {
                attempt, deadline, ..
            }
            | Standby::Greeting {
                attempt, deadline, ..
            } if deadline <= now.moment => {
                let reason = DisconnectReason::Silent {
                    waiting_for: "a second server",
                };
                let disconnect = Effect::Disconnect { attempt, reason };
                out.push_after(Durability::Nothing, disconnect);
                self.on_standby_lost(Ending::Silence, now);
            }
            Standby::None { .. }
            | Standby::Ready { .. }
            | Standby::Connecting { .. }
            | Standby::Greeting { .. } => {}
        }
    }

    /// When [`Self::tend_standby`] is next due.
    pub(super) fn standby_due(&self) -> Option<Moment> {
        match self.standby {
            Standby::None { since, retry_at } => {
                retry_at.map(|at| self.standby_wanted_at(since, at))
            }
            Standby::Ready { .. } => Some(self.worry_at()),
            Standby::Connecting { deadline, .. } | Standby::Greeting { deadline, .. } => {
                Some(deadline)
            }
        }
    }

    /// The second connection stands.
    pub(crate) fn on_standby_connected(&mut self, now: Now) {
        if let Standby::Connecting {
            attempt, server, ..
        } = self.standby
        {
            let since = now.moment;
            self.standby = Standby::Ready {
                attempt,
                server,
                since,
            };
        }
    }

    /// The second connection is gone: another one is made after a while.
    pub(crate) fn on_standby_lost(&mut self, ending: Ending, now: Now) {
        let Some(attempt) = self.standby.attempt() else {
            return;
        };
        self.forgive_what_stood(now);
        let exponent = self.standby_failures.min(6);
        let longest = (STANDBY_RETRY * 2_u32.pow(exponent)).min(RETRY_MAX);
        self.standby_failures = self.standby_failures.saturating_add(1);
        let number = mix(halves(&self.seed).1, attempt.0);
        // With the session's server silent there is little time to lose; but where nobody leads,
        // every server refuses every node.
        let wait = if self.is_silent(now) && ending != Ending::Busy {
            let soon = RETRY_DEFAULT * 2_u32.pow(exponent.min(2));
            part_of(soon, number)
        } else {
            RETRY_DEFAULT + part_of(longest, number)
        };
        self.standby = Standby::None {
            since: now.moment,
            retry_at: Some(now.moment.after(wait)),
        };
    }

    /// One that was of use is no failure; one that is refused as soon as it stands is, or every
    /// node would make a handshake a second while nobody leads.
    fn forgive_what_stood(&mut self, now: Now) {
        if let Standby::Ready { since, .. } = self.standby
            && now.moment.since(since) >= STOOD
        {
            self.standby_failures = 0;
        }
    }

    /// The server of the second connection says something that does not fit: it is given up.
    pub(crate) fn leave_standby(&mut self, reason: DisconnectReason, out: &mut Outbox, now: Now) {
        if let Some(attempt) = self.standby.attempt() {
            let disconnect = Effect::Disconnect { attempt, reason };
            out.push_after(Durability::Nothing, disconnect);
            self.on_standby_lost(Ending::Otherwise, now);
        }
    }

    /// The session's server cannot reach the leader: another one may.
    pub(super) fn on_cut_off(&mut self, out: &mut Outbox, now: Now) {
        self.cut_off_at.get_or_insert(now.moment);
        if let Standby::Ready { .. } = self.standby {
            self.greet_standby(out, now);
        }
    }

    /// The other server welcomes the node: the session is there now, and the first connection goes.
    /// Returns whether a Welcome was waited for.
    pub(crate) fn adopt_standby(&mut self, out: &mut Outbox) -> bool {
        let Standby::Greeting {
            attempt,
            server,
            deadline,
        } = self.standby
        else {
            return false;
        };
        let disconnect = Effect::Disconnect {
            attempt: self.attempt,
            reason: DisconnectReason::Moved,
        };
        out.push_after(Durability::Nothing, disconnect);
        self.facts.on_uncertain();
        self.closed = true;
        self.take_over(attempt, server);
        self.phase = SessionPhase::Greeting { deadline };
        true
    }

    /// The first connection is gone: the second one takes its place, as far as it is. Returns
    /// whether there was one.
    pub(super) fn promote_standby(&mut self, out: &mut Outbox, now: Now) -> bool {
        match self.standby {
            Standby::None { .. } => return false,
            Standby::Connecting {
                attempt,
                server,
                deadline,
            } => {
                self.take_over(attempt, server);
                self.phase = SessionPhase::Connecting { deadline };
            }
            Standby::Ready {
                attempt, server, ..
            } => {
                self.take_over(attempt, server);
                self.greet(self.answer_limit.min(WELCOME_LIMIT), out, now);
            }
            Standby::Greeting {
                attempt,
                server,
                deadline,
            } => {
                self.take_over(attempt, server);
                self.phase = SessionPhase::Greeting { deadline };
            }
        }
        true
    }

    fn take_over(&mut self, attempt: Attempt, server: usize) {
        self.attempt = attempt;
        self.server = server;
        let since = self.last_heard;
        self.standby = Standby::None {
            since,
            retry_at: None,
        };
    }

    fn connect_standby(&mut self, out: &mut Outbox, now: Now) {
        let failures = usize::try_from(self.standby_failures).unwrap_or(0);
        let server = self.server.wrapping_add(1).wrapping_add(failures);
        let attempt = self.next_attempt();
        self.standby = Standby::Connecting {
            attempt,
            server,
            deadline: now.moment.after(self.answer_limit),
        };
        let server = ServerChoice {
            offset: server % self.servers.max(1),
            standby: true,
            apart_from: (self.servers > 1).then_some(self.attempt),
            wish: Wish {
                urgent: self.is_silent(now) || self.cut_off_at.is_some(),
                waited: now.moment.since(self.last_heard),
                patience: PATIENCE,
            },
        };
        let connect = Effect::Connect { attempt, server };
        out.push_after(Durability::Nothing, connect);
    }

    fn greet_standby(&mut self, out: &mut Outbox, now: Now) {
        self.forgive_what_stood(now);
        let Standby::Ready {
            attempt, server, ..
        } = self.standby
        else {
            return;
        };
        self.standby = Standby::Greeting {
            attempt,
            server,
            deadline: now.moment.after(self.answer_limit.min(WELCOME_LIMIT)),
        };
        self.say_hello(attempt, out);
    }
}
