//! What the core asks of the world, as data. The shell executes effects and answers with events.
//!
//! Effects leave through `NodeCore::poll_effect` in one order. A shell that drains them all,
//! appends every [`Effect::Append`], syncs the journal once if any effect of the group needs it,
//! and then executes the others in order is right, and commits in groups by itself. A shell that
//! wants to let effects overtake each other (a task's start must not wait behind an fsync) may do
//! so between
//! [`Lane`]s, never within one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol_model::AllocId;
use protocol_wire::report::AllocReport;

use crate::alloc_spec::AllocSpec;
use crate::journal::JournalRecord;
use crate::key::{Attempt, RunKey, SessionEpoch, Watermark};
use crate::time::Moment;

/// How safe every journal record issued before an effect must be before the effect is executed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Durability {
    /// It says nothing of what is journaled, and never waits: the node stays visible to the control
    /// plane while its disk hangs.
    Nothing,
    /// Written to the file: a crash of the daemon keeps it (a crash of the host ends the tasks
    /// too).
    Appended,
    /// On the disk (`fdatasync`): needed before a stop or removal is acknowledged, a terminal
    /// status reported, an epoch or incarnation accepted.
    Synced,
}

/// An effect, with what must be durable before it is executed.
#[derive(Clone, PartialEq, Debug)]
pub struct Issued {
    /// How safe every record issued earlier must be first.
    pub needs: Durability,
    /// What to do.
    pub effect: Effect,
}

/// Effects of one lane are executed in order; lanes may overtake each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// The journal itself.
    Journal,
    /// The connection of one attempt and its control stream. What an earlier attempt still waits
    /// to say holds nobody up: the shell drops it.
    Session(Attempt),
    /// Heartbeats: a slow disk must not make a node look dead.
    Heartbeat,
    /// Status batches of one class.
    Batch(UpdateClass),
    /// Everything done for one allocation.
    Alloc(AllocId),
}

/// What the core asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Append a record to the journal. No answer.
    Append(JournalRecord),

    /// Connect to a server, ending the connection of every earlier attempt.
    /// Answer: [`SessionEvent::Connected`](crate::event::SessionEvent::Connected) or
    /// `Disconnected`.
    Connect {
        /// The attempt's number; its events carry it.
        attempt: Attempt,
        /// Which server: an offset into the list that the core was last given
        /// (`NodeCore::set_servers`, `Welcome`, `Refused`), already in range.
        server: ServerChoice,
    },
    /// Close the connection of an attempt. No answer is needed; one that comes is dropped.
    Disconnect {
        /// The attempt.
        attempt: Attempt,
        /// Why, for logs and for the peer.
        reason: DisconnectReason,
    },
    /// The session is live: ask for the watch. What it brings are `WatchMap` and `WatchDelta`
    /// events.
    OpenWatch {
        /// The attempt.
        attempt: Attempt,
    },
    /// Send a message in the session of an attempt.
    Send {
        /// The attempt; a message for an earlier one is dropped by the shell.
        attempt: Attempt,
        /// The message.
        message: SessionMessage,
    },

    /// Make the directories of an allocation (idempotent).
    /// Answer: [`AllocEvent::DirectoryBuilt`](crate::event::AllocEvent::DirectoryBuilt) or
    /// `DirectoryFailed`.
    BuildAllocDirectory {
        /// The allocation.
        spec: Arc<AllocSpec>,
    },
    /// Every task of the allocation is dead: what only running tasks need goes now (the memory file
    /// systems of secrets, its network namespace). Logs and data stay. No answer.
    RetireAlloc {
        /// The allocation.
        alloc: AllocId,
    },
    /// Everything of the allocation may go: its directories, its output streams and log files, what
    /// keeper remembers of it. Nothing of it runs any more. Retry until it succeeds; answer:
    /// [`AllocEvent::Destroyed`](crate::event::AllocEvent::Destroyed).
    DestroyAlloc {
        /// The allocation.
        alloc: AllocId,
    },

    /// Prepare an attempt: run `hooks` in order, stop at the first that fails.
    /// Answer: [`RunEvent::Prepared`](crate::event::RunEvent::Prepared) or `PrepareFailed`.
    PrepareTask(Box<PrepareTask>),
    /// Start the process. Answer: `RunEvent::Started` or `RunEvent::StartFailed`, later `Exited`.
    StartTask(Box<StartTask>),
    /// Send `signal` to the main process and kill everything `kill_after` later. A repeat may only
    /// bring the deadline nearer. Answer: `Exited` in the end; a run that keeper does not know is
    /// answered with `Exited` and [`ExitStatus::Unknown`](crate::event::ExitStatus::Unknown) at
    /// once.
    StopTask {
        /// The attempt.
        run: RunKey,
        /// The signal's name as in job files: `SIGTERM`.
        signal: String,
        /// From when the signal is sent until everything is killed.
        kill_after: Duration,
    },
    /// Kill the whole task now. Answered like `StopTask`.
    KillTask {
        /// The attempt.
        run: RunKey,
    },
    /// Send one signal to the main process. A failure is told with `RunEvent::Message`.
    SignalTask {
        /// The attempt.
        run: RunKey,
        /// The signal's name.
        signal: String,
    },
    /// The run has ended and that is recorded: acknowledge its exit to keeper, retire its streams,
    /// remove its cgroup and sandbox. No answer.
    ReleaseRun {
        /// The attempt.
        run: RunKey,
    },
}

impl Effect {
    /// Which effects this one may not overtake.
    pub fn lane(&self) -> Lane {
        match self {
            Self::Append(_) => Lane::Journal,
            Self::Connect { attempt, .. }
            | Self::Disconnect { attempt, .. }
            | Self::OpenWatch { attempt } => Lane::Session(*attempt),
            Self::Send { attempt, message } => match message {
                SessionMessage::Heartbeat { .. } => Lane::Heartbeat,
                SessionMessage::StatusBatch(batch) => Lane::Batch(batch.class),
                SessionMessage::Hello(_)
                | SessionMessage::SyncPart(_)
                | SessionMessage::Facts { .. }
                | SessionMessage::WatchAck { .. } => Lane::Session(*attempt),
            },
            Self::BuildAllocDirectory { spec } => Lane::Alloc(spec.id()),
            Self::RetireAlloc { alloc } | Self::DestroyAlloc { alloc } => Lane::Alloc(*alloc),
            Self::PrepareTask(prepare) => Lane::Alloc(prepare.run.alloc),
            Self::StartTask(start) => Lane::Alloc(start.run.alloc),
            Self::StopTask { run, .. }
            | Self::KillTask { run }
            | Self::SignalTask { run, .. }
            | Self::ReleaseRun { run } => Lane::Alloc(run.alloc),
        }
    }
}

/// Which of the known servers to connect to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerChoice {
    /// The offset into the list of servers.
    pub offset: usize,
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
    /// The server sent us elsewhere.
    #[error("the server asked us to go elsewhere")]
    GoAway,
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
    /// What the node had been told, as far as it is on the disk: a server that is behind it must not
    /// take the node, and no crash may make it less.
    pub watermark: Watermark,
    /// Whether the daemon restarted since that epoch was accepted: then it cannot resume.
    pub daemon_restarted: bool,
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

/// A step of preparing a task, in the order in which they are listed.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// Check the task against this host: its user is allowed and exists, its driver works.
    Validate,
    /// Make the task's directories.
    TaskDirectory,
    /// Make the output streams of this attempt and tell pump.
    Logs,
    /// Write the payload of a dispatched job.
    DispatchPayload,
    /// Render the templates, as `PrepareTask::templates` says.
    Templates,
}

impl Hook {
    /// The hook's name, as messages and the journal have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::TaskDirectory => "task_dir",
            Self::Logs => "logs",
            Self::DispatchPayload => "dispatch_payload",
            Self::Templates => "template",
        }
    }
}

/// What preparing an attempt needs.
#[derive(Clone, PartialEq, Debug)]
pub struct PrepareTask {
    /// The attempt.
    pub run: RunKey,
    /// The allocation.
    pub spec: Arc<AllocSpec>,
    /// What to do. A hook that was done once and for all in an earlier attempt is left out.
    pub hooks: Vec<Hook>,
    /// The environment that templates see, without what they will add themselves.
    pub environment: BTreeMap<String, String>,
    /// Templates with their paths on the host, `${...}` resolved, in the job's order.
    pub templates: Vec<PreparedTemplate>,
    /// Where the payload of a dispatched job goes, on the host, where the task wants it.
    pub dispatch_payload_file: Option<String>,
}

/// A template with everything but its rendered text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedTemplate {
    /// The template in the job: an offset into the task's list.
    pub offset: usize,
    /// The source file on the host; `None` = the inline data.
    pub source: Option<String>,
    /// The destination on the host, beneath the allocation's directory.
    pub destination: String,
}

/// What starting an attempt needs.
#[derive(Clone, PartialEq, Debug)]
pub struct StartTask {
    /// The attempt.
    pub run: RunKey,
    /// The allocation.
    pub spec: Arc<AllocSpec>,
    /// The driver's name.
    pub driver: String,
    /// The driver's configuration with `${...}` resolved.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// The user, `${...}` resolved; empty = the driver's default.
    pub user: String,
    /// The whole environment, except the host variables that the driver lets through beneath it.
    pub environment: BTreeMap<String, String>,
}
