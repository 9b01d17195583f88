//! The node's relation to the control plane: connect, greet, sync, live, and again.
//!
//! ```text
//!                    retry due         Connected        Welcome(owes sync)       SyncAck
//!   disconnected ------------> connecting ------> greeting ----------------> syncing ------> live
//!        ^                         |                 |    \---Welcome(resumed)-----------------^
//!        |                         |                 |                         |                |
//!        +--- Disconnected, Refused, GoAway, silence, an answer that makes no sense ------------+
//! ```
//!
//! Every connection has an attempt number; what an earlier one says is dropped. The nonce stays the
//! same until a session is live, so that retries under load are answered without a commit and
//! cannot kill the sync in progress. A restarted daemon never resumes: it owes a sync first.

use std::time::Duration;

mod facts;

use protocol_wire::report::AllocReport;

use crate::effect::{
    DisconnectReason, Durability, Effect, Hello, ServerChoice, SessionMessage, SyncPart,
};
use crate::event::{HeartbeatAck, Refused, RefusedReason, Welcome};
use crate::journal::JournalRecord;
use crate::key::{Attempt, SessionEpoch, Watermark};
use crate::outbox::Outbox;
use crate::pseudo_random::{halves, mix, part_of};
use crate::time::{Moment, Now, earliest};
use crate::update_batcher::SessionMode;
use crate::update_batcher::size::report_bytes;
use facts::Facts;

/// The most bytes of one part of a sync, by estimate; a larger report is a part of its own.
pub const SYNC_PART_BYTES_MAX: usize = 256 * 1024;

/// How long a sync may stay unanswered: the control plane closes sessions that take longer.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// How long a server may be silent although heartbeats ask it to answer; longer where it asked for
/// heartbeats so rare that it could not have answered [`HEARTBEATS_UNANSWERED_MAX`] of them.
const SILENCE_LIMIT: Duration = Duration::from_millis(2_600);
/// As the servers are configured, too: their own limit is at least as many intervals.
const HEARTBEATS_UNANSWERED_MAX: u32 = 4;

/// The first wait after a failed attempt where no server said how long, and the longest.
const RETRY_DEFAULT: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(15);

/// Until a server says otherwise.
const HEARTBEAT_INTERVAL_DEFAULT: Duration = Duration::from_millis(125);
const HEARTBEAT_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Where the session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionPhase {
    /// There is no connection; the next attempt is due then (never, while no server is known).
    Disconnected {
        /// When.
        retry_at: Option<Moment>,
    },
    /// A connection is being made.
    Connecting {
        /// When to give up.
        deadline: Moment,
    },
    /// Hello was sent.
    Greeting {
        /// When to give up.
        deadline: Moment,
    },
    /// The complete report was sent.
    Syncing {
        /// The session.
        epoch: SessionEpoch,
        /// When to give up.
        deadline: Moment,
    },
    /// The control plane knows everything the node knows, and hears news.
    Live {
        /// The session.
        epoch: SessionEpoch,
    },
}

impl SessionPhase {
    /// The phase's name, for logs and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disconnected { .. } => "disconnected",
            Self::Connecting { .. } => "connecting",
            Self::Greeting { .. } => "greeting",
            Self::Syncing { .. } => "syncing",
            Self::Live { .. } => "live",
        }
    }
}

/// What a Welcome begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    pub(crate) epoch: SessionEpoch,
    pub(crate) mode: SessionMode,
}

/// The node's relation to the control plane.
#[derive(Debug)]
pub struct Session {
    phase: SessionPhase,
    attempt: Attempt,
    servers: usize,
    server: usize,
    failures: u32,
    series: u64,
    last_epoch: SessionEpoch,
    history: History,
    life: DaemonLife,
    retry_interval: Duration,
    answer_limit: Duration,
    heartbeat_interval: Duration,
    next_heartbeat: Moment,
    tick: u64,
    last_heard: Moment,
    confirmed: Option<Moment>,
    facts: Facts,
    seed: [u8; 16],
}

/// Whether the node still stands by the history it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum History {
    Known,
    /// A server said that it is another cluster's: the next Hello begins anew.
    GivenUp,
}

/// Whether a session was live since the daemon started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DaemonLife {
    Restarted,
    Synced,
}

impl Session {
    /// A session that never was. `last_epoch` is the journal's.
    pub(crate) fn new(
        last_epoch: SessionEpoch,
        answer_limit: Duration,
        seed: [u8; 16],
        now: Now,
    ) -> Self {
        Self {
            phase: SessionPhase::Disconnected { retry_at: None },
            attempt: Attempt(0),
            servers: 0,
            // Nodes that start together do not all ask the same server first.
            server: usize::try_from(halves(&seed).0 >> 33).unwrap_or(0),
            failures: 0,
            series: 0,
            last_epoch,
            history: History::Known,
            life: DaemonLife::Restarted,
            retry_interval: RETRY_DEFAULT,
            answer_limit,
            heartbeat_interval: HEARTBEAT_INTERVAL_DEFAULT,
            next_heartbeat: now.moment,
            tick: 0,
            last_heard: now.moment,
            confirmed: None,
            facts: Facts::Owed,
            seed,
        }
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

    /// The connection of an attempt stands: says Hello.
    pub(crate) fn on_connected(&mut self, watermark: Watermark, out: &mut Outbox, now: Now) {
        let SessionPhase::Connecting { .. } = self.phase else {
            return;
        };
        self.phase = SessionPhase::Greeting {
            deadline: now.moment.after(self.answer_limit),
        };
        let (last_epoch, watermark) = match self.history {
            History::Known => (self.last_epoch, watermark),
            History::GivenUp => (SessionEpoch::default(), Watermark::default()),
        };
        let hello = Hello {
            nonce: self.nonce(),
            last_epoch,
            watermark,
            daemon_restarted: self.life == DaemonLife::Restarted,
        };
        // The watermark that it names must survive a crash of the host.
        let message = SessionMessage::Hello(hello);
        out.push_after(
            Durability::Synced,
            Effect::Send {
                attempt: self.attempt,
                message,
            },
        );
    }

    /// The server made or resumed the session. An answer that makes no sense ends the connection.
    pub(crate) fn on_welcome(
        &mut self,
        welcome: &Welcome,
        out: &mut Outbox,
        now: Now,
    ) -> Option<Begun> {
        let SessionPhase::Greeting { .. } = self.phase else {
            self.unexpected("Welcome", out, now);
            return None;
        };
        let resumable = self.life == DaemonLife::Synced && self.history == History::Known;
        if welcome.resumed && !(resumable && welcome.epoch == self.last_epoch) {
            self.unexpected("a resumed session", out, now);
            return None;
        }
        self.heard(now);
        self.servers = welcome.servers.max(1);
        self.retry_interval = welcome.retry_interval.clamp(RETRY_DEFAULT, RETRY_MAX);
        self.heartbeat_interval = welcome.heartbeat_interval.max(HEARTBEAT_INTERVAL_MIN);
        self.next_heartbeat = now.moment;
        let epoch = welcome.epoch;
        if epoch != self.last_epoch {
            self.last_epoch = epoch;
            out.journal(JournalRecord::SessionEpoch { epoch });
        }
        self.history = History::Known;
        let mode = if welcome.resumed {
            SessionMode::Resumed
        } else {
            SessionMode::OwesSync
        };
        match mode {
            SessionMode::Resumed => self.become_live(epoch, out),
            SessionMode::OwesSync => {
                let deadline = now.moment.after(SYNC_LIMIT);
                self.phase = SessionPhase::Syncing { epoch, deadline };
            }
        }
        Some(Begun { epoch, mode })
    }

    /// Sends the complete report in bounded parts: always at least one, possibly empty.
    pub(crate) fn send_sync(
        &mut self,
        reports: Vec<AllocReport>,
        watch_index: u64,
        out: &mut Outbox,
    ) {
        let SessionPhase::Syncing { epoch, .. } = self.phase else {
            return;
        };
        let mut parts: Vec<Vec<AllocReport>> = vec![Vec::new()];
        let mut bytes = 0;
        for report in reports {
            let more = report_bytes(&report);
            if bytes > 0 && bytes + more > SYNC_PART_BYTES_MAX {
                parts.push(Vec::new());
                bytes = 0;
            }
            bytes += more;
            if let Some(part) = parts.last_mut() {
                part.push(report);
            }
        }
        let count = parts.len();
        let owes_facts = self.facts != Facts::Told;
        if owes_facts {
            self.facts.on_sent();
        }
        for (offset, reports) in parts.into_iter().enumerate() {
            let part = SyncPart {
                epoch,
                part: u32::try_from(offset).unwrap_or(u32::MAX),
                last: offset + 1 == count,
                watch_index,
                reports,
                with_facts: owes_facts && offset + 1 == count,
            };
            let message = SessionMessage::SyncPart(part);
            out.push_after(
                Durability::Synced,
                Effect::Send {
                    attempt: self.attempt,
                    message,
                },
            );
        }
    }

    /// The sync is committed. Returns whether the session is live now.
    pub(crate) fn on_sync_ack(
        &mut self,
        acked: SessionEpoch,
        out: &mut Outbox,
        now: Now,
    ) -> Option<SessionEpoch> {
        match self.phase {
            SessionPhase::Syncing { epoch, .. } if epoch == acked => {
                self.heard(now);
                self.facts.on_acknowledged();
                self.become_live(epoch, out);
                Some(epoch)
            }
            // A repeat.
            SessionPhase::Live { epoch } if epoch == acked => None,
            SessionPhase::Syncing { .. }
            | SessionPhase::Live { .. }
            | SessionPhase::Disconnected { .. }
            | SessionPhase::Connecting { .. }
            | SessionPhase::Greeting { .. } => {
                self.unexpected("SyncAck", out, now);
                None
            }
        }
    }

    /// The node has other facts than before: a live session tells them at once.
    pub(crate) fn on_facts_changed(&mut self, out: &mut Outbox) {
        self.facts.on_changed();
        self.send_facts(out);
    }

    /// The control plane recorded the facts that were sent.
    pub(crate) fn on_facts_ack(&mut self, acked: SessionEpoch, out: &mut Outbox, now: Now) {
        if self.live_epoch() == Some(acked) {
            self.heard(now);
            self.facts.on_acknowledged();
            self.send_facts(out);
        }
    }

    /// The server made no session, or ended it.
    pub(crate) fn on_refused(&mut self, refused: &Refused, out: &mut Outbox, now: Now) {
        if refused.servers > 0 {
            self.servers = refused.servers;
        }
        self.retry_interval = refused.retry_interval.clamp(RETRY_DEFAULT, RETRY_MAX);
        match refused.reason {
            RefusedReason::Unregistered => self.last_epoch = SessionEpoch::default(),
            RefusedReason::OtherIncarnation => self.history = History::GivenUp,
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

    /// The server answered a heartbeat.
    pub(crate) fn on_heartbeat_ack(&mut self, ack: &HeartbeatAck, now: Now) {
        self.heard(now);
        if ack.confirmed_sent_nanos > 0 {
            let confirmed = Moment(Duration::from_nanos(ack.confirmed_sent_nanos));
            // Nothing that was not sent yet can be confirmed.
            let confirmed = confirmed.min(now.moment);
            self.confirmed = self.confirmed.max(Some(confirmed));
        }
    }

    /// The server said something.
    pub(crate) fn heard(&mut self, now: Now) {
        self.last_heard = now.moment;
    }

    /// The connection is gone: waits, then tries the next server.
    pub(crate) fn on_disconnected(&mut self, now: Now) {
        if let SessionPhase::Disconnected { .. } = self.phase {
            return;
        }
        self.facts.on_disconnected();
        let exponent = self.failures.min(6);
        let longest = (self.retry_interval * 2_u32.pow(exponent)).min(RETRY_MAX);
        let number = mix(halves(&self.seed).1, self.attempt.0);
        self.failures = self.failures.saturating_add(1);
        self.server = self.server.wrapping_add(1);
        let retry_at = (self.servers > 0).then(|| now.moment.after(part_of(longest, number)));
        self.phase = SessionPhase::Disconnected { retry_at };
    }

    /// Ends the connection from this side.
    pub(crate) fn close(&mut self, reason: DisconnectReason, out: &mut Outbox, now: Now) {
        if let SessionPhase::Disconnected { .. } = self.phase {
            return;
        }
        out.push(Effect::Disconnect {
            attempt: self.attempt,
            reason,
        });
        self.on_disconnected(now);
    }

    /// Attempts, heartbeats and deadlines. Returns whether a connection ended.
    pub(crate) fn on_timeout(&mut self, out: &mut Outbox, now: Now) -> bool {
        let due = |at: Moment| at <= now.moment;
        match self.phase {
            SessionPhase::Disconnected { retry_at: Some(at) } if due(at) => {
                self.connect(out, now);
                false
            }
            SessionPhase::Connecting { deadline } if due(deadline) => {
                self.close_silent("connecting", out, now)
            }
            SessionPhase::Greeting { deadline } if due(deadline) => {
                self.close_silent("the answer to Hello", out, now)
            }
            SessionPhase::Syncing { deadline, .. } if due(deadline) => {
                self.close_silent("the answer to the sync", out, now)
            }
            SessionPhase::Syncing { epoch, .. } | SessionPhase::Live { epoch } => {
                if due(self.silent_at()) {
                    return self.close_silent("the answer to a heartbeat", out, now);
                }
                if due(self.next_heartbeat) {
                    self.send_heartbeat(epoch, out, now);
                }
                false
            }
            SessionPhase::Disconnected { .. }
            | SessionPhase::Connecting { .. }
            | SessionPhase::Greeting { .. } => false,
        }
    }

    /// When [`Self::on_timeout`] is next due.
    pub fn poll_timeout(&self) -> Option<Moment> {
        let alive = || self.next_heartbeat.min(self.silent_at());
        match self.phase {
            SessionPhase::Disconnected { retry_at } => retry_at,
            SessionPhase::Connecting { deadline } | SessionPhase::Greeting { deadline } => {
                Some(deadline)
            }
            SessionPhase::Syncing { deadline, .. } => earliest(Some(deadline), Some(alive())),
            SessionPhase::Live { .. } => Some(alive()),
        }
    }

    /// Where it stands.
    pub fn phase(&self) -> SessionPhase {
        self.phase
    }

    /// The newest attempt.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// The last session that the node accepted.
    pub fn last_epoch(&self) -> SessionEpoch {
        self.last_epoch
    }

    /// The session whose sync is under way.
    pub(crate) fn syncing_epoch(&self) -> Option<SessionEpoch> {
        match self.phase {
            SessionPhase::Syncing { epoch, .. } => Some(epoch),
            SessionPhase::Disconnected { .. }
            | SessionPhase::Connecting { .. }
            | SessionPhase::Greeting { .. }
            | SessionPhase::Live { .. } => None,
        }
    }

    /// The session, while it is live.
    pub fn live_epoch(&self) -> Option<SessionEpoch> {
        match self.phase {
            SessionPhase::Live { epoch } => Some(epoch),
            SessionPhase::Disconnected { .. }
            | SessionPhase::Connecting { .. }
            | SessionPhase::Greeting { .. }
            | SessionPhase::Syncing { .. } => None,
        }
    }

    /// Sending time of the newest heartbeat whose receipt the leader has confirmed. Before the
    /// first such word no lease is enforced: servers that never confirm must not end healthy tasks.
    pub fn confirmed(&self) -> Option<Moment> {
        self.confirmed
    }

    /// A message came where it makes no sense: the connection is not worth keeping.
    pub(crate) fn unexpected(&mut self, message: &'static str, out: &mut Outbox, now: Now) {
        let phase = self.phase.name();
        self.close(DisconnectReason::Unexpected { message, phase }, out, now);
    }

    fn connect(&mut self, out: &mut Outbox, now: Now) {
        self.attempt = Attempt(self.attempt.0 + 1);
        self.phase = SessionPhase::Connecting {
            deadline: now.moment.after(self.answer_limit),
        };
        let server = ServerChoice {
            offset: self.server % self.servers.max(1),
        };
        out.push(Effect::Connect {
            attempt: self.attempt,
            server,
        });
    }

    fn become_live(&mut self, epoch: SessionEpoch, out: &mut Outbox) {
        out.push(Effect::OpenWatch {
            attempt: self.attempt,
        });
        self.phase = SessionPhase::Live { epoch };
        self.life = DaemonLife::Synced;
        self.failures = 0;
        self.series += 1;
        self.send_facts(out);
    }

    fn send_facts(&mut self, out: &mut Outbox) {
        if let (SessionPhase::Live { epoch }, Facts::Owed) = (self.phase, self.facts) {
            self.facts.on_sent();
            let (attempt, message) = (self.attempt, SessionMessage::Facts { epoch });
            out.push(Effect::Send { attempt, message });
        }
    }

    /// When the server will have been silent for too long.
    fn silent_at(&self) -> Moment {
        let unanswered = self
            .heartbeat_interval
            .saturating_mul(HEARTBEATS_UNANSWERED_MAX);
        self.last_heard.after(SILENCE_LIMIT.max(unanswered))
    }

    fn send_heartbeat(&mut self, epoch: SessionEpoch, out: &mut Outbox, now: Now) {
        self.tick += 1;
        self.next_heartbeat = now.moment.after(self.heartbeat_interval);
        let message = SessionMessage::Heartbeat {
            epoch,
            tick: self.tick,
            sent: now.moment,
        };
        out.push(Effect::Send {
            attempt: self.attempt,
            message,
        });
    }

    fn close_silent(&mut self, waiting_for: &'static str, out: &mut Outbox, now: Now) -> bool {
        self.close(DisconnectReason::Silent { waiting_for }, out, now);
        true
    }

    /// The nonce of this series of attempts.
    fn nonce(&self) -> [u8; 16] {
        let (low, high) = halves(&self.seed);
        let number = (u128::from(mix(high, self.series)) << 64) | u128::from(mix(low, self.series));
        number.to_le_bytes()
    }
}

#[cfg(test)]
mod tests;
