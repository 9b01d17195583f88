//! One run: its phases, and what is known in each.

use crate::protocol::{BootNanos, Exit, ExitCause, SpawnFailure, TaskPhase, UnixNanos};
use serde::{Deserialize, Serialize};

/// One reading of both clocks: one to decide by, one to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    pub(crate) boot: BootNanos,
    pub(crate) wall: UnixNanos,
}

/// How a run ended, either way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    SpawnFailed(SpawnFailure),
    Exited(Exit),
}

/// Whether processes are left in a run's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tree {
    Empty,
    Populated,
}

/// Whether the kernel would deliver a stop signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Delivered,
    /// To PID 1 of a namespace that has no handler for it (pid_namespaces(7)).
    Discarded,
}

/// Where a run stands, with what is known only there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    Starting {
        pid: u32,
        deadline: BootNanos,
        cause: ExitCause,
    },
    Failing {
        pid: u32,
        failure: SpawnFailure,
    },
    Running(Running),
    Ending(Ending),
    Ended(Outcome),
}

/// A run whose program was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    pub(crate) start_time_ticks: u64,
    pub(crate) started_at: UnixNanos,
    pub(crate) kill_at: Option<BootNanos>,
    pub(crate) cause: ExitCause,
}

/// A run whose main process was reaped and whose cgroup was not empty then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    pub(crate) pid: u32,
    pub(crate) outcome: Outcome,
    pub(crate) deadline: BootNanos,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) cgroup: String,
    pub(crate) fifos: Vec<String>,
    pub(crate) phase: Phase,
}

impl Run {
    pub(super) fn deadline(&self) -> Option<BootNanos> {
        match &self.phase {
            Phase::Starting { deadline, .. } | Phase::Ending(Ending { deadline, .. }) => {
                Some(*deadline)
            }
            Phase::Running(running) => running.kill_at,
            Phase::Failing { .. } | Phase::Ended(_) => None,
        }
    }
}

impl Phase {
    pub(super) fn report(&self) -> TaskPhase {
        match self {
            Self::Starting { pid, .. } | Self::Failing { pid, .. } => {
                TaskPhase::Starting { pid: *pid }
            }
            Self::Running(running) => TaskPhase::Running {
                pid: running.pid,
                start_time_ticks: running.start_time_ticks,
                started_at: running.started_at,
                stopping: running.kill_at.is_some(),
            },
            Self::Ending(Ending { pid, .. }) => TaskPhase::Ending { pid: *pid },
            Self::Ended(Outcome::SpawnFailed(failure)) => TaskPhase::SpawnFailed(failure.clone()),
            Self::Ended(Outcome::Exited(exit)) => TaskPhase::Exited(*exit),
        }
    }
}
