//! Heartbeats, silence, and every other deadline of a session.

use std::time::Duration;

use super::{Session, SessionPhase};
use crate::effect::{DisconnectReason, Durability, Effect, SessionMessage};
use crate::event::HeartbeatAck;
use crate::key::SessionEpoch;
use crate::outbox::Outbox;
use crate::time::{Moment, Now, earliest};

/// How long a server may be silent although heartbeats ask it to answer; longer where it asked for
/// heartbeats so rare that it could not have answered [`HEARTBEATS_UNANSWERED_MAX`] of them.
const SILENCE_LIMIT: Duration = Duration::from_millis(2_600);
/// The same for a live session, which asks over another connection meanwhile. Where both ways lose
/// a third of all datagrams the answers to twenty heartbeats in a row are lost sooner or later,
/// while the server hears most of them: to hang up would be what makes the node silent. With this
/// limit it takes forty-eight.
const SILENCE_LIMIT_LIVE: Duration = Duration::from_secs(6);
/// As the servers are configured, too: their own limit is at least as many intervals. As many are
/// sent: where a host has no time for its own daemon, answers may be there unread.
const HEARTBEATS_UNANSWERED_MAX: u32 = 4;

impl Session {
    /// Attempts, heartbeats and deadlines.
    pub(crate) fn on_timeout(&mut self, out: &mut Outbox, now: Now) {
        let due = |at: Moment| at <= now.moment;
        match self.phase {
            SessionPhase::Disconnected { retry_at: Some(at) } if due(at) => {
                self.connect(out, now);
            }
            SessionPhase::Connecting { deadline } if due(deadline) => {
                self.close_silent("connecting", out, now);
            }
            SessionPhase::Greeting { deadline } if due(deadline) => {
                self.close_silent("the answer to Hello", out, now);
            }
            SessionPhase::Syncing { deadline, .. } if due(deadline) => {
                self.close_silent("the answer to the sync", out, now);
            }
            SessionPhase::Syncing { epoch, .. } | SessionPhase::Live { epoch } => {
                if due(self.silent_at()) {
                    return self.close_silent("the answer to a heartbeat", out, now);
                }
                self.tend_standby(out, now);
                if due(self.pulse.next()) {
                    self.send_heartbeat(epoch, out, now);
                }
            }
            SessionPhase::Disconnected { .. }
            | SessionPhase::Connecting { .. }
            | SessionPhase::Greeting { .. } => {}
        }
    }

    /// When [`Self::on_timeout`] is next due.
    pub fn poll_timeout(&self) -> Option<Moment> {
        let alive = || self.pulse.next().min(self.silent_at());
        match self.phase {
            SessionPhase::Disconnected { retry_at } => retry_at,
            SessionPhase::Connecting { deadline } | SessionPhase::Greeting { deadline } => {
                Some(deadline)
            }
            SessionPhase::Syncing { deadline, .. } => earliest(Some(deadline), Some(alive())),
            SessionPhase::Live { .. } => earliest(Some(alive()), self.standby_due()),
        }
    }

    /// The server said something.
    pub(crate) fn heard(&mut self, now: Now) {
        self.last_heard = now.moment;
    }

    /// The server answered a heartbeat. Whether it is the newest answer until now: they overtake
    /// each other, and what an earlier one says of the server may be over.
    pub(crate) fn on_heartbeat_ack(
        &mut self,
        ack: &HeartbeatAck,
        out: &mut Outbox,
        now: Now,
    ) -> bool {
        let is_newest = self.pulse.on_answer(ack.tick, ack.cut_off, ack.pace);
        self.heard(now);
        if is_newest && ack.cut_off {
            self.on_cut_off(out, now);
        } else if is_newest {
            self.cut_off_at = None;
        }
        if ack.confirmed_sent_nanos > 0 {
            let confirmed = Moment(Duration::from_nanos(ack.confirmed_sent_nanos));
            // One that was not sent yet is another boot's, and says nothing of this one.
            if confirmed <= now.moment {
                self.confirmed = self.confirmed.max(Some(confirmed));
            }
        }
        is_newest
    }

    /// Whether anything runs on a lease, as far as the node knows now.
    pub(crate) fn set_leased(&mut self, leased: bool) {
        self.pulse.set_leased(leased);
    }

    /// Sending time of the newest heartbeat whose receipt the leader has confirmed, to this daemon
    /// or an earlier one of the same boot. Before the first such word nothing that needs a lease
    /// starts, and nothing that runs is ended.
    pub fn confirmed(&self) -> Option<Moment> {
        self.confirmed
    }

    /// When the server will have been silent for too long.
    pub(super) fn silent_at(&self) -> Moment {
        let limit = match self.phase {
            SessionPhase::Live { .. } => SILENCE_LIMIT_LIVE,
            _ => SILENCE_LIMIT,
        };
        let silence = self.pulse.unheard_for(limit, HEARTBEATS_UNANSWERED_MAX);
        // A node that is late itself has not asked so often yet.
        let asked = self.pulse.unanswered_at(HEARTBEATS_UNANSWERED_MAX);
        self.last_heard.after(silence).max(asked)
    }

    pub(super) fn send_heartbeat(&mut self, epoch: SessionEpoch, out: &mut Outbox, now: Now) {
        let message = SessionMessage::Heartbeat {
            epoch,
            tick: self.pulse.beat(now.moment),
            sent: now.moment,
        };
        let attempt = self.attempt;
        out.push_after(Durability::Nothing, Effect::Send { attempt, message });
    }

    pub(super) fn close_silent(&mut self, waiting_for: &'static str, out: &mut Outbox, now: Now) {
        self.close(DisconnectReason::Silent { waiting_for }, out, now);
    }
}
