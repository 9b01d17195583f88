//! What the world tells the core: answers to effects, and what happened unasked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{AllocId, Allocation, Job, SpecHash, TaskEventKind, UnixNanos};

use crate::effect::{Hook, UpdateClass};
use crate::key::{Attempt, RunKey, SessionEpoch, Watermark};

/// Something that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// In the session of an attempt. Events of an earlier attempt are dropped.
    Session {
        /// The attempt.
        attempt: Attempt,
        /// What.
        event: SessionEvent,
    },
    /// To an allocation as a whole.
    Alloc {
        /// The allocation.
        alloc: AllocId,
        /// What.
        event: AllocEvent,
    },
    /// To one run of a task. Events of an earlier run are dropped.
    Run {
        /// The run.
        run: RunKey,
        /// What.
        event: RunEvent,
    },
}

/// What happens in a session.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionEvent {
    /// The connection stands, mutually authenticated.
    Connected,
    /// The connection could not be made, or ended.
    Disconnected {
        /// Why, for logs.
        reason: String,
    },
    /// The server made or resumed the session.
    Welcome(Welcome),
    /// The server made none.
    Refused(Refused),
    /// The complete report is committed.
    SyncAck {
        /// The session.
        epoch: SessionEpoch,
        /// The log index that did it.
        index: u64,
    },
    /// The facts that were sent last are committed.
    FactsAck {
        /// The session.
        epoch: SessionEpoch,
    },
    /// The server heard a heartbeat.
    HeartbeatAck(HeartbeatAck),
    /// A batch is committed, or refused item by item.
    BatchAck(BatchAck),
    /// A batch could not be sent, or its fate is unknown, while the session goes on.
    BatchFailed {
        /// Its class.
        class: UpdateClass,
        /// Its number.
        seq: u64,
    },
    /// The server cannot serve the session any more.
    GoAway,
    /// A part of the complete map, first on every watch.
    WatchMap(WatchMap),
    /// A change of desired state.
    WatchDelta(WatchDelta),
}

/// The server's answer to a Hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The session.
    pub epoch: SessionEpoch,
    /// Whether it goes on as it was: no sync is owed.
    pub resumed: bool,
    /// The last urgent batch that was applied.
    pub applied_urgent_seq: u64,
    /// The last typical batch that was applied.
    pub applied_typical_seq: u64,
    /// How often to send a heartbeat.
    pub heartbeat_interval: Duration,
    /// How long typical updates may gather.
    pub typical_interval: Duration,
    /// How long urgent updates may gather.
    pub urgent_delay: Duration,
    /// How long to wait before another attempt.
    pub retry_interval: Duration,
    /// The server's history and how far it has applied it.
    pub applied: Watermark,
    /// How many servers the shell knows now: the answer's list replaces the earlier one.
    pub servers: usize,
}

/// The server's refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Why.
    pub reason: RefusedReason,
    /// Why, for people.
    pub message: String,
    /// How long to wait before another attempt.
    pub retry_interval: Duration,
    /// How many servers the shell knows now; zero = the list is as before.
    pub servers: usize,
}

/// Why a server made no session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedReason {
    /// There is no leader.
    NoLeader,
    /// It is behind the node's watermark: another server may do.
    Behind,
    /// Another host uses this node's id.
    WrongSecret,
    /// The join token is missing or wrong.
    JoinToken,
    /// No protocol version in common.
    Protocol,
    /// The node was purged, or never known: the next Hello says everything.
    Unregistered,
    /// Too much to do.
    Overloaded,
    /// Our message made no sense to it.
    Malformed,
    /// The node's history is not this cluster's.
    OtherIncarnation,
    /// The session is over.
    NotInSession,
    /// Something that this release does not know.
    Other,
}

/// The server's answer to a heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatAck {
    /// Which heartbeat.
    pub tick: u64,
    /// How long typical updates may gather from now on; zero = unchanged.
    pub typical_interval: Duration,
    /// Sending time (`CLOCK_BOOTTIME` nanoseconds) of the newest heartbeat that the leader
    /// confirmed.
    pub confirmed_sent_nanos: u64,
}

/// The server's answer to a batch, made from the result of applying it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchAck {
    /// The class.
    pub class: UpdateClass,
    /// The batch.
    pub seq: u64,
    /// The log index that applied it.
    pub index: u64,
    /// The result of each item, in the batch's order.
    pub results: Vec<ItemResult>,
}

/// What became of one update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItemResult {
    /// It is recorded.
    Applied,
    /// A newer one is recorded already.
    Superseded,
    /// The session is over: the update comes back in the next one's sync.
    NotInSession,
    /// The state does not know the allocation.
    UnknownAlloc,
}

/// A part of the complete map of what the node should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchMap {
    /// The index that the map is about.
    pub at: Watermark,
    /// The part's number, from 0.
    pub part: u32,
    /// Whether it is the last one.
    pub last: bool,
    /// Allocations and the version of what is wanted of them.
    pub allocs: Vec<(AllocId, u64)>,
}

/// A change of desired state.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchDelta {
    /// The index that it goes on from.
    pub previous_index: u64,
    /// The index that it leads to.
    pub index: u64,
    /// Job specifications that were not sent before in this session.
    pub specs: Vec<(SpecHash, Arc<Job>)>,
    /// Allocations, new or changed, without their jobs.
    pub changed: Vec<DesiredAlloc>,
    /// Allocations that the state does not know any more.
    pub removed: Vec<AllocId>,
}

/// What is wanted of one allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct DesiredAlloc {
    /// The version: the allocation's `alloc_modify_index`.
    pub version: u64,
    /// The specification of its job.
    pub spec: SpecHash,
    /// The allocation, `job` left out.
    pub alloc: Allocation,
}

/// What happens to an allocation as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocEvent {
    /// Its directories are there.
    DirectoryBuilt,
    /// They could not be made.
    DirectoryFailed {
        /// Why, for people.
        message: String,
    },
    /// Nothing of it is left.
    Destroyed,
}

/// What happens to one run of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEvent {
    /// Every hook is done.
    Prepared {
        /// Variables that templates with `env = true` gave.
        environment: BTreeMap<String, String>,
    },
    /// A hook failed; the later ones were not run.
    PrepareFailed {
        /// Which.
        hook: Hook,
        /// Why, for people.
        message: String,
        /// Whether another attempt may do better.
        recovery: Recovery,
    },
    /// The program was executed.
    Started {
        /// Its process.
        pid: u32,
        /// When.
        at: UnixNanos,
    },
    /// The program was not executed, and nothing of the attempt is left running.
    StartFailed {
        /// Why, for people.
        message: String,
        /// Whether another attempt may do better.
        recovery: Recovery,
    },
    /// The main process ended and everything it left behind was killed.
    Exited(Exit),
    /// A word for the task's history, from a driver or a hook.
    Message {
        /// The kind of event.
        kind: TaskEventKind,
        /// The text.
        message: String,
    },
}

/// Whether a failure may pass with another attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Another attempt may do better: the restart policy decides.
    Possible,
    /// It will fail every time.
    Hopeless,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Exit {
    /// The status of the main process.
    pub status: ExitStatus,
    /// Whether the kernel killed something of the task for want of memory.
    pub oom_killed: bool,
    /// Whether the stop signal was replaced by a kill because PID 1 would not have received it.
    #[serde(default)]
    pub signal_discarded: bool,
    /// When.
    pub at: UnixNanos,
}

/// The status of a main process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It ended by itself.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Nobody knows (keeper was replaced after a crash, or never had it): counts as a failure.
    Unknown,
}

/// A run as keeper knows it, from its `List`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptRun {
    /// The run.
    pub run: RunKey,
    /// Where it stands.
    pub phase: KeptPhase,
}

/// Where a run stands in keeper's custody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeptPhase {
    /// Between clone and exec: an event will tell the rest.
    Starting,
    /// It runs.
    Running {
        /// Its process.
        pid: u32,
        /// Since when.
        at: UnixNanos,
        /// Whether a kill deadline is set.
        stopping: bool,
    },
    /// Its main process ended, the rest is being killed: an event will tell.
    Ending,
    /// It was never executed.
    StartFailed {
        /// Why.
        message: String,
    },
    /// It ended, and nobody has acknowledged that.
    Exited(Exit),
}
