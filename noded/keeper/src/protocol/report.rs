//! Where a run stands, as `List` tells it.

use super::{Exit, SpawnFailure, TaskKey, UnixNanos};
use serde::{Deserialize, Serialize};

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
