//! How a session comes about, and how it ends: an attempt, Hello, Welcome or a refusal, the wait
//! before the next attempt.

use std::time::Duration;

use protocol_model::reconnect::{NEXT_SERVER, RETRY_MAX};
use protocol_model::{AllocId, DaemonLife};

use super::trials::Trials;
use super::{Begun, RETRY_DEFAULT, Session, SessionPhase};
use crate::effect::{DisconnectReason, Durability, Effect, Hello, ServerChoice, SessionMessage};
use crate::event::{Ending, Refused, RefusedReason, Welcome};
use crate::journal::JournalRecord;
use crate::key::{Attempt, SessionEpoch, Watermark};
use crate::outbox::Outbox;
use crate::pseudo_random::{halves, mix, part_of};
use crate::time::Now;
use crate::update_batcher::SessionMode;

/// How long a sync may stay unanswered: the control plane closes sessions that take longer.
const SYNC_LIMIT: Duration = Duration::from_secs(30);
/// The longest wait after one of the first [`SOON_ATTEMPTS`]: a leader that follows another one at
/// once gives nodes four seconds to come back, and all of it is needed where servers die one after
/// another. One that finds that nobody led for long gives more than [`RETRY_MAX`]
/// ([`time_to_return`](protocol_model::reconnect::time_to_return)).
pub(super) const SOON_MAX: Duration = Duration::from_secs(2);
/// Full jitter makes them six seconds or so, longer than what a new leader takes for a short while.
pub(super) const SOON_ATTEMPTS: u32 = 8;

impl Session {
    /// Everything up to here of the watch is on the disk.
    pub(crate) fn on_durable(&mut self, watermark: Watermark) {
        self.durable = watermark;
    }

    /// The connection of an attempt stands: says Hello, whatever the disk does meanwhile.
    pub(crate) fn on_connected(&mut self, out: &mut Outbox, now: Now) {
        if let SessionPhase::Connecting { .. } = self.phase {
            self.greet(self.trials.answer_limit(self.answer_limit), out, now);
        }
    }

    /// Says Hello, to be answered within `limit`.
    pub(super) fn greet(&mut self, limit: Duration, out: &mut Outbox, now: Now) {
        self.phase = SessionPhase::Greeting {
            deadline: now.moment.after(limit),
        };
        self.say_hello(self.attempt, out);
    }

    /// Says Hello on the connection of an attempt.
    pub(super) fn say_hello(&mut self, attempt: Attempt, out: &mut Outbox) {
        let hello = Hello {
            nonce: self.nonce(),
            last_epoch: self.last_epoch,
            watermark: self.durable,
            daemon: self.life,
        };
        let message = SessionMessage::Hello(hello);
        out.push_after(Durability::Nothing, Effect::Send { attempt, message });
    }

    /// The server made or resumed the session. An answer that makes no sense ends the connection.
    /// `known` is what the node was told until now, where the server asks for it.
    pub(crate) fn on_welcome(
        &mut self,
        welcome: &Welcome,
        known: Option<Vec<(AllocId, u64)>>,
        out: &mut Outbox,
        now: Now,
    ) -> Option<Begun> {
        let SessionPhase::Greeting { .. } = self.phase else {
            self.unexpected("Welcome", out, now);
            return None;
        };
        let resumable = self.life == DaemonLife::Continued;
        if welcome.resumed && !(resumable && welcome.epoch == self.last_epoch) {
            self.unexpected("a resumed session", out, now);
            return None;
        }
        self.heard(now);
        if !self.greeted {
            // The leader counts on a node that was greeted to be back soon; but what ends one
            // session after the other before it is live is nothing to be tried again and again.
            self.greeted = true;
            self.failures = self.failures.min(SOON_ATTEMPTS / 2);
        }
        self.servers = welcome.servers.max(1);
        self.retry_interval = welcome.retry_interval.clamp(RETRY_DEFAULT, RETRY_MAX);
        let [interval, calm] = [welcome.heartbeat_interval, welcome.calm_interval];
        self.pulse.on_welcome(interval, calm, now.moment);
        let epoch = welcome.epoch;
        if epoch != self.last_epoch {
            self.last_epoch = epoch;
            out.journal(JournalRecord::SessionEpoch { epoch });
        }
        let mode = if welcome.resumed {
            SessionMode::Resumed
        } else {
            SessionMode::OwesSync
        };
        match mode {
            SessionMode::Resumed => self.become_live(epoch, known, out),
            SessionMode::OwesSync => {
                let deadline = now.moment.after(SYNC_LIMIT);
                self.phase = SessionPhase::Syncing { epoch, deadline };
            }
        }
        Some(Begun { epoch, mode })
    }

    /// The server made no session, or ended it.
    pub(crate) fn on_refused(&mut self, refused: &Refused, out: &mut Outbox, now: Now) {
        if refused.servers > 0 {
            self.servers = refused.servers;
        }
        self.retry_interval = refused.retry_interval.clamp(RETRY_DEFAULT, RETRY_MAX);
        match refused.reason {
            RefusedReason::Unregistered => self.last_epoch = SessionEpoch::default(),
            RefusedReason::NoLeader
            | RefusedReason::Behind
            | RefusedReason::WrongSecret
            | RefusedReason::JoinToken
            | RefusedReason::Protocol
            | RefusedReason::Overloaded
            | RefusedReason::Malformed
            | RefusedReason::NotInSession
            | RefusedReason::Other => {}
        }
        self.close(DisconnectReason::Refused, out, now);
    }

    /// How many servers the shell knows. The first attempt begins with the first answer.
    pub(crate) fn set_servers(&mut self, servers: usize, now: Now) {
        self.servers = servers;
        if let SessionPhase::Disconnected { retry_at: None } = self.phase
            && servers > 0
        {
            self.phase = SessionPhase::Disconnected {
                retry_at: Some(now.moment),
            };
        }
    }

    pub(super) fn connect(&mut self, out: &mut Outbox, now: Now) {
        self.attempt = self.next_attempt();
        let wish = self.trials.wish(self.servers, now);
        // The shell ends an attempt without a sign of the server; this is for what comes after it.
        self.phase = SessionPhase::Connecting {
            deadline: now.moment.after(wish.patience + self.answer_limit),
        };
        let server = ServerChoice {
            offset: self.server % self.servers.max(1),
            standby: false,
            apart_from: None,
            wish,
        };
        let attempt = self.attempt;
        let connect = Effect::Connect { attempt, server };
        out.push_after(Durability::Nothing, connect);
    }

    /// The nonce of this series of attempts.
    pub(super) fn nonce(&self) -> [u8; 16] {
        let (low, high) = halves(&self.seed);
        let number = (u128::from(mix(high, self.series)) << 64) | u128::from(mix(low, self.series));
        number.to_le_bytes()
    }

    /// The connection is gone: goes on over the second one, or waits and tries the next server.
    pub(crate) fn on_disconnected(&mut self, ending: Ending, out: &mut Outbox, now: Now) {
        match self.phase {
            SessionPhase::Disconnected { .. } => return,
            SessionPhase::Live { .. } => self.trials = Trials::new(now.moment),
            SessionPhase::Connecting { .. }
            | SessionPhase::Greeting { .. }
            | SessionPhase::Syncing { .. } => self.trials.on_failed(ending),
        }
        self.closed = true;
        self.facts.on_uncertain();
        if self.promote_standby(out, now) {
            return;
        }
        let longest = self.longest_wait(ending);
        let number = mix(halves(&self.seed).1, self.attempt.0);
        self.failures = self.failures.saturating_add(1);
        self.server = self.server.wrapping_add(1);
        let retry_at = (self.servers > 0).then(|| now.moment.after(part_of(longest, number)));
        self.phase = SessionPhase::Disconnected { retry_at };
    }

    /// The longest wait before the next attempt: growing, and after a while between rounds only, of
    /// which each asks every server. A server that has too much to do is not asked so soon.
    fn longest_wait(&self, ending: Ending) -> Duration {
        let growing = self.retry_interval * 2_u32.pow(self.failures.min(6));
        if ending == Ending::Busy {
            return growing.min(RETRY_MAX);
        }
        let servers = u32::try_from(self.servers.max(1)).unwrap_or(u32::MAX);
        if self.failures < SOON_ATTEMPTS {
            growing.min(SOON_MAX)
        } else if (self.failures - SOON_ATTEMPTS).is_multiple_of(servers) {
            growing.min(RETRY_MAX)
        } else {
            self.retry_interval.min(NEXT_SERVER)
        }
    }

    /// Ends the connection from this side.
    pub(crate) fn close(&mut self, reason: DisconnectReason, out: &mut Outbox, now: Now) {
        if let SessionPhase::Disconnected { .. } = self.phase {
            return;
        }
        let ending = match reason {
            DisconnectReason::Silent { .. } => Ending::Silence,
            _ => Ending::Otherwise,
        };
        let attempt = self.attempt;
        let disconnect = Effect::Disconnect { attempt, reason };
        out.push_after(Durability::Nothing, disconnect);
        self.on_disconnected(ending, out, now);
    }

    /// A message came where it makes no sense: the connection is not worth keeping.
    pub(crate) fn unexpected(&mut self, message: &'static str, out: &mut Outbox, now: Now) {
        let phase = self.phase.name();
        self.close(DisconnectReason::Unexpected { message, phase }, out, now);
    }
}
