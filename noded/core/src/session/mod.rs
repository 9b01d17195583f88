//! The node's relation to the control plane: connect, greet, sync, live, and again.
//!
//! ```text
//!                    retry due         Connected        Welcome(owes sync)       SyncAck
//!   disconnected ------------> connecting ------> greeting ----------------> syncing ------> live
//!        ^                         |                 |    \---Welcome(resumed)-----------------^
//!        |                         |                 |                         |                |
//!        +--- Disconnected, Refused, silence, an answer that makes no sense --------------------+
//! ```
//!
//! A live session has a second connection, to another server (`standby`): when the first one ends,
//! the session goes on there without a wait.
//!
//! Every connection has an attempt number; what an earlier one says is dropped. The nonce stays the
//! same until a session is live, so that retries under load are answered without a commit and
//! cannot kill the sync in progress. A restarted daemon never resumes: it owes a sync first.

use std::time::Duration;

mod facts;
mod greeting;
mod liveness;
mod pulse;
mod standby;
mod sync;
mod trials;
mod trouble;

use protocol_model::DaemonLife;

use crate::key::{Attempt, SessionEpoch, Watermark};
use crate::pseudo_random::halves;
use crate::time::{Moment, Now};
use crate::update_batcher::SessionMode;
use facts::Facts;
use pulse::Pulse;
use standby::Standby;
pub use sync::SYNC_PART_BYTES_MAX;
use trials::Trials;
use trouble::Worries;

/// The first wait after a failed attempt where no server said how long.
const RETRY_DEFAULT: Duration = Duration::from_millis(250);

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
#[derive(Clone, Debug)]
pub struct Session {
    phase: SessionPhase,
    /// The session's connection.
    attempt: Attempt,
    /// The newest connection that was asked for.
    newest: Attempt,
    standby: Standby,
    standby_failures: u32,
    worries: Worries,
    /// Whether a connection ended, and what it carried with it, since [`Session::take_closed`].
    closed: bool,
    servers: usize,
    server: usize,
    failures: u32,
    trials: Trials,
    /// Whether a server said Welcome since the session was live.
    greeted: bool,
    series: u64,
    last_epoch: SessionEpoch,
    /// What of the watch is on the disk.
    durable: Watermark,
    /// `Continued` once a session was live since the daemon started.
    life: DaemonLife,
    retry_interval: Duration,
    answer_limit: Duration,
    pulse: Pulse,
    last_heard: Moment,
    /// Since when the server says that it does not reach the leader.
    cut_off_at: Option<Moment>,
    confirmed: Option<Moment>,
    facts: Facts,
    /// The session that a complete report was sent in last, and whether not for the first time.
    reported_in: SessionEpoch,
    reported_again: bool,
    seed: [u8; 16],
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
            newest: Attempt(0),
            standby: Standby::None {
                since: now.moment,
                retry_at: None,
            },
            standby_failures: 0,
            worries: Worries::default(),
            closed: false,
            servers: 0,
            // Nodes that start together do not all ask the same server first.
            server: usize::try_from(halves(&seed).0 >> 33).unwrap_or(0),
            failures: 0,
            trials: Trials::new(now.moment),
            greeted: false,
            series: 0,
            last_epoch,
            durable: Watermark::default(),
            life: DaemonLife::Restarted,
            retry_interval: RETRY_DEFAULT,
            answer_limit,
            pulse: Pulse::new(now.moment),
            last_heard: now.moment,
            cut_off_at: None,
            confirmed: None,
            facts: Facts::Owed,
            reported_in: SessionEpoch(0),
            reported_again: false,
            seed,
        }
    }

    /// The newest confirmed heartbeat of this boot that an earlier daemon knew of.
    pub(crate) fn set_confirmed(&mut self, confirmed: Option<Moment>) {
        self.confirmed = confirmed;
    }

    /// Where it stands.
    pub fn phase(&self) -> SessionPhase {
        self.phase
    }

    /// The attempt whose connection is the session's.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Whether the session's connection ended since the last call: whatever it carried is over.
    pub(crate) fn take_closed(&mut self) -> bool {
        std::mem::take(&mut self.closed)
    }

    fn next_attempt(&mut self) -> Attempt {
        self.newest = Attempt(self.newest.0 + 1);
        self.newest
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
}

#[cfg(test)]
mod tests;
