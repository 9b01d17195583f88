//! The words that noded and keeper say to each other, as data.
//!
//! ```text
//!   noded                         keeper
//!     | -- Hello ------------------> |   first, always in version 1
//!     | <------------- Welcome ----- |
//!     | -- List -------------------> |   what runs, what ended unseen
//!     | <-- Listing (more: true) --- |
//!     | <-- Listing (more: false) -- |
//!     | -- Spawn + descriptors ----> |
//!     | <------------ Accepted ----- |   or Refused, and then no event follows
//!     | <------- event Started ----- |   or SpawnFailed, which ends the run
//!     | <-------- event Exited ----- |
//!     | -- Acknowledge ------------> |   only now is the outcome forgotten
//! ```
//!
//! Variants and fields are only ever appended: postcard writes a variant as its position.
//! `tests/golden/` holds the bytes of every message, and a change there needs a new
//! [`PROTOCOL_VERSION`].

mod key;
mod packet;

use serde::{Deserialize, Serialize};

pub use key::{AllocAndTask, KeyError, TASK_NAME_BYTES_MAX, TaskKey};
pub use packet::{
    DESCRIPTORS_MAX, PACKET_BYTES_MAX, PacketError, decode_from_client, decode_from_keeper,
    encode_for_client, encode_for_keeper,
};

/// The only version spoken today; also the version byte of every packet.
pub const PROTOCOL_VERSION: u8 = 1;

/// [`PROTOCOL_VERSION`] as a range, for `Hello`.
pub const PROTOCOL_VERSIONS: VersionRange = VersionRange {
    lowest: PROTOCOL_VERSION as u32,
    highest: PROTOCOL_VERSION as u32,
};

/// Entries in one [`Response::Listing`]; the longest entry is under 400 bytes, so a page stays far
/// below [`PACKET_BYTES_MAX`].
pub const LISTING_ENTRIES_MAX: usize = 100;

/// An inclusive range of versions that one side can speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    pub lowest: u32,
    pub highest: u32,
}

impl VersionRange {
    /// The highest version that both ranges hold, if there is one.
    #[must_use]
    pub fn best_common(self, other: Self) -> Option<u32> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

/// Names a request on one connection, so that its response can be told from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u32);

/// A signal number as the kernel counts them (1..=64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OsSignal(pub i32);

/// Wall-clock time in nanoseconds since 1970, for people to read; never used to order or to fence
/// anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnixNanos(pub u64);

/// What noded asks. Every request gets exactly one [`Response`], except `List`, which gets one or
/// more pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Opens the conversation; anything else before it is refused.
    Hello {
        protocol: VersionRange,
        /// The versions of plan steps that this noded can write.
        steps: VersionRange,
    },
    /// Starts a task. Descriptor 0 of the packet is the sealed memfd that holds the plan
    /// (postcard); the others are named by position.
    Spawn(SpawnRequest),
    /// Sends one signal to the main process.
    Signal {
        key: TaskKey,
        signal: OsSignal,
    },
    /// Sends `signal` to the main process, and kills the whole cgroup when it has not ended
    /// `kill_after_ms` later. A repeat may only bring the deadline nearer.
    Stop {
        key: TaskKey,
        signal: OsSignal,
        kill_after_ms: u64,
    },
    /// Kills the whole cgroup now.
    Kill {
        key: TaskKey,
    },
    /// Asks for every run that keeper knows: starting, running, and ended but not acknowledged.
    List,
    /// The outcome is recorded elsewhere and may be forgotten. Unknown keys succeed, so that a
    /// repeat is harmless.
    Acknowledge {
        key: TaskKey,
    },
    /// No run of this allocation will be asked for again: its highest run epochs may be forgotten.
    Forget {
        alloc: String,
    },
    /// Ends keeper; refused while it knows any run.
    Shutdown,
    Ping,
}

/// Everything that a start needs besides descriptors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    pub key: TaskKey,
    /// The task's cgroup, relative to keeper's `--cgroup-base`; it must exist and be empty.
    pub cgroup: String,
    pub stdin: StdioSource,
    pub stdout: StdioSource,
    pub stderr: StdioSource,
    /// The position of a network namespace in the packet, where the plan joins one.
    pub network: Option<u8>,
    /// The running task whose namespaces the plan joins, for one more process inside it.
    pub target: Option<TaskKey>,
    /// How long the child may take from clone to exec before its cgroup is killed.
    pub start_timeout_ms: u64,
}

/// Where one of a task's three standard descriptors comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdioSource {
    /// `/dev/null`.
    Null,
    /// A FIFO of this name in the `io` directory; keeper opens it O_RDWR and holds it, so the task
    /// never sees SIGPIPE.
    Fifo { name: String },
    /// The descriptor at this position of the packet (0 is the plan).
    Descriptor { position: u8 },
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    Welcome {
        /// What both sides speak from now on.
        protocol: u32,
        /// The versions of plan steps that this keeper can apply.
        steps: VersionRange,
        keeper_pid: u32,
    },
    /// Done, or (for `Spawn`) begun: an event tells the rest.
    Accepted,
    /// The answer to `Stop`.
    Stopping {
        method: StopMethod,
    },
    Listing {
        tasks: Vec<TaskReport>,
        /// Another page follows.
        more: bool,
    },
    Pong {
        runs: u32,
    },
    Refused(Refusal),
}

/// What a stop did at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopMethod {
    /// The signal was sent; the deadline runs.
    Signalled,
    /// The main process is PID 1 of its namespace without a handler: the kernel would discard the
    /// signal, so the cgroup was killed.
    KilledAtOnce,
    /// The main process had ended before.
    AlreadyEnding,
}

/// Why a request was not carried out. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("a request came before Hello")]
    NotGreeted,
    #[error("no common protocol version: keeper speaks {} to {}", .keeper.lowest, .keeper.highest)]
    NoCommonVersion { keeper: VersionRange },
    #[error("the packet could not be read: {detail}")]
    Malformed { detail: String },
    #[error("the run epoch is not above {highest}, the highest seen for this task")]
    StaleEpoch { highest: u64 },
    #[error("no such run")]
    UnknownTask,
    #[error("the run has ended")]
    AlreadyEnded,
    #[error("the run has not reached exec")]
    StillStarting,
    #[error("run {run_epoch} of this task has not ended")]
    EarlierRunAlive { run_epoch: u64 },
    #[error("no child could be made: {detail}")]
    Spawn { detail: String },
    #[error("{runs} runs are known, and no more are accepted until some are acknowledged")]
    TooManyRuns { runs: u32 },
    #[error("the packet carries no descriptor at position {position}")]
    MissingDescriptor { position: u8 },
    #[error("the plan cannot be used: {detail}")]
    BadPlan { detail: String },
    #[error("cgroup {path}: errno {errno}")]
    Cgroup { path: String, errno: i32 },
    #[error("cgroup {path} is not empty")]
    CgroupNotEmpty { path: String },
    #[error("FIFO {name}: errno {errno}")]
    Fifo { name: String, errno: i32 },
    #[error("signal {signal}: errno {errno}")]
    Signal { signal: i32, errno: i32 },
    #[error("the record of the run could not be written: errno {errno}")]
    Record { errno: i32 },
    #[error("{runs} runs are still known")]
    RunsRemain { runs: u32 },
}

/// What keeper tells without being asked. Events missed while nobody was connected are in the
/// answer to `List`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The program was executed.
    Started {
        key: TaskKey,
        pid: u32,
        at: UnixNanos,
    },
    /// The run ended before its program was executed. To be acknowledged.
    SpawnFailed { key: TaskKey, failure: SpawnFailure },
    /// The main process ended and its cgroup is empty. To be acknowledged.
    Exited { key: TaskKey, exit: Exit },
}

/// Why a program was never executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnFailure {
    /// The position of the failed step in the plan, if a step failed.
    pub step_index: Option<u32>,
    /// The step or the operation, in words.
    pub step: String,
    /// 0 where the kernel gave no error (a deadline, a child that vanished).
    pub errno: i32,
    pub at: UnixNanos,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub status: ExitStatus,
    pub oom: OomKill,
    pub cause: ExitCause,
    pub remains: Remains,
    pub at: UnixNanos,
}

/// The status of the main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    Code(i32),
    Signal {
        signal: OsSignal,
        core_dumped: bool,
    },
    /// The process was not our child any more (keeper was replaced after a crash). The restart
    /// policy counts it as a failure.
    Unknown,
}

/// Whether the kernel killed something in the task's cgroup for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OomKill {
    /// The memory controller is not there, so nobody counted.
    NotMeasured,
    No,
    Yes,
}

/// What keeper itself did to bring the end about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitCause {
    /// Nothing beyond a stop signal it was asked to send, if any.
    OwnAccord,
    /// The kill deadline passed.
    KillDeadline,
    /// The stop signal would have been discarded (PID 1 without a handler).
    SignalWouldBeDiscarded,
    /// `Kill` was asked for.
    KillRequest,
}

/// What became of the other processes of the cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remains {
    /// There were none.
    None,
    /// They were killed.
    Killed,
    /// They were killed, but some had not ended when keeper stopped waiting (uninterruptible
    /// sleep).
    Surviving,
}

/// One run, as `List` tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    pub key: TaskKey,
    pub cgroup: String,
    pub phase: TaskPhase,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskPhase {
    /// Between clone and exec.
    Starting { pid: u32 },
    Running {
        pid: u32,
        /// Field 22 of `/proc/<pid>/stat`, in clock ticks since boot: tells a process from a later
        /// one with the same pid.
        start_time_ticks: u64,
        started_at: UnixNanos,
        /// A stop was asked for and its deadline runs.
        stopping: bool,
    },
    /// The main process ended, the rest of the cgroup is being killed.
    Ending { pid: u32 },
    /// Waits for `Acknowledge`.
    SpawnFailed(SpawnFailure),
    /// Waits for `Acknowledge`.
    Exited(Exit),
}

/// One packet from keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Response { call: CallId, response: Response },
    Event(Event),
}
