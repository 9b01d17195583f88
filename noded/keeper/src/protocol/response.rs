//! What keeper answers to a request, refusals included.

use super::{AllocAndTask, TaskReport, VersionRange};
use serde::{Deserialize, Serialize};

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
    /// The answer to `Take`: the socket of each task is the descriptor at its position.
    Held {
        owners: Vec<AllocAndTask>,
        /// Another `Take`, after the last of these, has more.
        more: bool,
    },
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
    #[error(
        "{runs} runs are not forgotten yet: stop their jobs, let noded see their end, then try again"
    )]
    RunsRemain { runs: u32 },
    #[error("the allocation's lease has run out")]
    LeaseExpired,
    #[error("{leases} leases are held, and no more are accepted")]
    TooManyLeases { leases: u32 },
    #[error("the lease of {alloc:?} cannot be kept: {detail}")]
    Lease { alloc: String, detail: String },
    #[error("keeper goes on as it is: {detail}")]
    UpgradeFailed { detail: String },
    #[error("an upgrade is under way")]
    UpgradeUnderWay,
    #[error("{sockets} sockets are held, and no more are accepted")]
    TooManySockets { sockets: u32 },
    #[error("the socket cannot be held: {detail}")]
    Socket { detail: String },
}
