//! What is asked of the session: where to connect, why to leave, what to say.

use std::time::Duration;

use protocol_model::{AllocId, DaemonLife};
use protocol_wire::report::AllocReport;

use crate::key::{Attempt, SessionEpoch, Watermark};
use crate::time::Moment;

/// Which of the known servers to connect to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerChoice {
    /// The offset into the list of servers.
    pub offset: usize,
    /// Whether it is a second connection: the session's stays. Otherwise all others end.
    pub standby: bool,
    /// The attempt whose server is not meant, while its connection stands.
    pub apart_from: Option<Attempt>,
    /// Told to the server before it decides whether it has the time for it.
    pub wish: Wish,
}

/// How much a node wants a connection, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Whether the node has no session, or one whose server is of no use.
    pub urgent: bool,
    /// How long it has wanted one: through all attempts that came to nothing.
    pub waited: Duration,
    /// How long the first sign of the server may take.
    pub patience: Duration,
}

/// Why a session's connection is closed from this side.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DisconnectReason {
    /// The watch repeated an index or left one out: it must start again with a complete map.
    #[error("the watch is no chain: it went on from {received}, expected {expected}")]
    WatchBroken {
        /// What the delta went on from.
        received: u64,
        /// What it had to go on from.
        expected: u64,
    },
    /// The watch sent a delta before its map, or a map whose parts do not follow each other.
    #[error("the watch's map is not well formed")]
    MapMalformed,
    /// The desired state of another history came without a sync in it.
    #[error("the watch is about another incarnation than the session")]
    OtherIncarnation,
    /// An allocation came without its job, or does not fit this node.
    #[error("allocation {alloc} cannot be read: {problem}")]
    AllocMalformed {
        /// The allocation.
        alloc: AllocId,
        /// What is wrong with it.
        problem: String,
    },
    /// The server did not answer in time.
    #[error("no answer within the limit while {waiting_for}")]
    Silent {
        /// What was waited for.
        waiting_for: &'static str,
    },
    /// The session goes on at another server.
    #[error("the session goes on at another server")]
    Moved,
    /// The server refused the session.
    #[error("the server refused the session")]
    Refused,
    /// A message came in a phase where it makes no sense, or for another epoch.
    #[error("{message} is not expected while {phase}")]
    Unexpected {
        /// The message.
        message: &'static str,
        /// The session's phase.
        phase: &'static str,
    },
}

/// A message of the session. The shell adds what only it knows: node id, secret, join token, boot
/// id, protocol versions and facts to a Hello; facts where a message says so.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionMessage {
    /// Opens the session.
    Hello(Hello),
    /// A part of the complete report.
    SyncPart(SyncPart),
    /// The core's loop is alive.
    Heartbeat {
        /// The session.
        epoch: SessionEpoch,
        /// Rises by one with every heartbeat of this process.
        tick: u64,
        /// When it was made.
        sent: Moment,
    },
    /// The node's facts changed since the control plane heard of them.
    /// Answer: [`SessionEvent::FactsAck`](crate::event::SessionEvent::FactsAck).
    Facts {
        /// The session.
        epoch: SessionEpoch,
    },
    /// Events of tasks that another server was told and this one was not. They are volatile: nobody
    /// answers, and nothing waits for them.
    Detail {
        /// The session.
        epoch: SessionEpoch,
        /// Allocations that live, with their newest events; in messages of at most
        /// [`SYNC_PART_BYTES_MAX`](crate::session::SYNC_PART_BYTES_MAX).
        parts: Vec<Vec<AllocReport>>,
    },
    /// Everything up to this index of the watch is journaled.
    WatchAck {
        /// The session.
        epoch: SessionEpoch,
        /// The index.
        index: u64,
    },
    /// Allocation updates of one class.
    StatusBatch(StatusBatch),
}

/// The core's part of a Hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Drawn once per series of attempts: a repeated Hello is answered without a commit.
    pub nonce: [u8; 16],
    /// The last epoch this node accepted; zero = none.
    pub last_epoch: SessionEpoch,
    /// What the node had been told, as far as it is on the disk: a server that is behind it must
    /// not take the node, and no crash may make it less.
    pub watermark: Watermark,
    /// Whether the daemon restarted since that epoch was accepted.
    pub daemon: DaemonLife,
}

/// A part of the complete report, bounded in size.
#[derive(Clone, PartialEq, Debug)]
pub struct SyncPart {
    /// The session.
    pub epoch: SessionEpoch,
    /// The part's number, from 0.
    pub part: u32,
    /// Whether it is the last one. There is always at least one part, possibly empty.
    pub last: bool,
    /// The node's watermark: what it had been told.
    pub watch_index: u64,
    /// Allocations.
    pub reports: Vec<AllocReport>,
    /// On the last part, how many allocations all parts have together; else 0.
    pub total: u32,
    /// Whether the shell adds the node's facts: the control plane may not have them as they are.
    pub with_facts: bool,
}

/// The class of a status batch.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
pub enum UpdateClass {
    /// Someone waits for it.
    Urgent,
    /// It may wait for others.
    Typical,
}

/// Allocation updates of one class, at most one such batch of a class in flight.
#[derive(Clone, PartialEq, Debug)]
pub struct StatusBatch {
    /// The session.
    pub epoch: SessionEpoch,
    /// The class.
    pub class: UpdateClass,
    /// The batch's number within its class.
    pub seq: u64,
    /// The updates; their acknowledgement answers each in this order.
    pub reports: Vec<AllocReport>,
}
