//! What keeper tells without being asked: how runs begin and end.

use super::{OsSignal, TaskKey, UnixNanos};
use serde::{Deserialize, Serialize};

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
    /// The allocation's lease ran out: nobody extended it in time.
    LeaseExpired,
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
