//! One task of one allocation, from its first preparation to its end.
//!
//! ```text
//!              permitted          Prepared          Started
//!   waiting -------------> preparing -----> starting -----> running --(stop)--> shutdown-delay
//!    ^   ^                    |                |              |  \                   |
//!    |   |                    | failed         | failed       |   `---(stop)---> stopping
//!    |   | delay over         v                v     Exited   v                      |
//!    |   +------ delayed <--------- restart policy <----------+                      | Exited
//!    |                              gives up |                                       |
//!    +-- restart was asked for --------------|--------------------------------------+
//!                                            v                                       |
//!                                          dead <------------------------------------+ kill
//! ```
//!
//! Every attempt has a run epoch, journaled before anything is asked for it. Events of an earlier
//! epoch change nothing. A run that nobody expected (an earlier life's) is killed, and nothing of
//! the task starts before it is gone: two runs of a task are never live at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol_model::{AllocId, Node, RestartPolicy, Task, TaskEvent, TaskState};
use serde::{Deserialize, Serialize};

mod attempt;
mod commands;
mod ended;
pub(crate) mod history;
mod identities;
pub mod restart_policy;
mod restore;
mod stop;
mod templates;

use crate::alloc_resources::AllocResources;
use crate::alloc_spec::AllocSpec;
use crate::effect::TaskHook;
use crate::journal::JournalRecord;
use crate::key::{RunEpoch, RunKey};
use crate::outbox::Outbox;
use crate::settings::Settings;
use crate::time::{Moment, Now};
use restart_policy::RestartTracker;
pub use restore::Boot;
pub(crate) use restore::LeftBehind;
pub use stop::{AfterStop, KillCause};

/// What of a task survives the daemon.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistedTask {
    /// The number of the newest attempt.
    pub epoch: RunEpoch,
    /// Whether that attempt may still be alive.
    pub attempt: AttemptState,
    /// The state that the API shows.
    pub state: TaskState,
    /// The restart policy's memory.
    pub restarts: RestartTracker,
    /// Hooks that were done once and for all.
    pub prepared: BTreeSet<TaskHook>,
    /// Artifacts that were fetched: offsets into the task's list.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub fetched: BTreeSet<usize>,
    /// Until when the restart policy has it wait; `None` = it does not wait. A point of the boot
    /// that the journal was written in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_until: Option<Moment>,
    /// What comes after the end of the newest attempt, where it was asked to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopping: Option<AfterStop>,
}

/// Whether the newest attempt may still be alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Its end is recorded, or there was none.
    #[default]
    Over,
    /// It was asked for, and its end is not recorded.
    Open,
}

/// Where a task is in its life on this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It waits until its lifecycle stage permits it.
    Waiting,
    /// It waits out the delay of its restart policy.
    Delayed {
        /// Until when.
        until: Moment,
    },
    /// Its hooks run.
    Preparing {
        /// What was wished for meanwhile.
        stop: Option<AfterStop>,
    },
    /// Its process is being made.
    Starting {
        /// What was wished for meanwhile.
        stop: Option<AfterStop>,
    },
    /// Its process runs.
    Running,
    /// Its process runs on for `shutdown_delay` before it is stopped.
    ShutdownDelay {
        /// Until when.
        until: Moment,
        /// Why it is stopped.
        cause: KillCause,
    },
    /// Its process was asked to end; keeper kills it at the deadline.
    Stopping {
        /// What comes after.
        after: AfterStop,
    },
    /// It will not run again, unless all tasks are restarted.
    Dead,
}

/// Whether `shutdown_delay` is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShutdownDelay {
    /// As the job says.
    Wait,
    /// An operator said not to, or the time for it is over.
    Skip,
}

/// Why a command for a task makes no sense now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaskRefusal {
    /// Its process does not run.
    #[error("the task is not running")]
    NotRunning,
    /// It is being stopped.
    #[error("the task is being stopped")]
    Stopping,
}

/// What every decision about a task may look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunContext<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) node: &'a Node,
    pub(crate) spec: &'a Arc<AllocSpec>,
    pub(crate) resources: &'a AllocResources,
}

/// One task of one allocation.
#[derive(Clone, Debug)]
pub struct TaskRunner {
    alloc: AllocId,
    name: String,
    epoch: RunEpoch,
    state: TaskState,
    restarts: RestartTracker,
    prepared: BTreeSet<TaskHook>,
    fetched: BTreeSet<usize>,
    phase: Phase,
    strays: BTreeSet<RunEpoch>,
    templates: templates::Follower,
}

impl TaskRunner {
    /// A task that has just been accepted.
    pub(crate) fn new(alloc: AllocId, name: &str, now: Now) -> Self {
        let mut state = TaskState::default();
        state.push_event(history::received(now.wall));
        Self {
            alloc,
            name: name.to_owned(),
            epoch: RunEpoch::default(),
            state,
            restarts: RestartTracker::default(),
            prepared: BTreeSet::new(),
            fetched: BTreeSet::new(),
            phase: Phase::Waiting,
            strays: BTreeSet::new(),
            templates: templates::Follower::default(),
        }
    }

    /// A hook of the allocation failed: its end follows.
    pub(crate) fn on_preparation_failed(&mut self, message: &str, now: Now) {
        if self.phase != Phase::Dead {
            self.note(history::setup_failure(message, now.wall));
        }
    }

    /// Its node had been silent, and the control plane decided that it goes on.
    pub(crate) fn on_reconnected(&mut self, out: &mut Outbox, now: Now) {
        self.note(history::reconnected(now.wall));
        self.persist(out);
    }

    /// A deadline of this task has come.
    pub(crate) fn on_timeout(&mut self, ctx: RunContext<'_>, out: &mut Outbox, now: Now) {
        match self.phase {
            Phase::Delayed { until } if until <= now.moment => self.phase = Phase::Waiting,
            Phase::ShutdownDelay { until, cause } if until <= now.moment => {
                self.begin_stop(AfterStop::Die(cause), ctx, out, now);
            }
            Phase::Waiting
            | Phase::Delayed { .. }
            | Phase::Preparing { .. }
            | Phase::Starting { .. }
            | Phase::Running
            | Phase::ShutdownDelay { .. }
            | Phase::Stopping { .. }
            | Phase::Dead => {}
        }
        self.on_templates_timeout(ctx, out, now);
    }

    /// When [`Self::on_timeout`] is next due.
    pub(crate) fn poll_timeout(&self) -> Option<Moment> {
        match self.phase {
            Phase::Delayed { until } | Phase::ShutdownDelay { until, .. } => Some(until),
            Phase::Running => self.templates.poll_timeout(),
            Phase::Waiting
            | Phase::Preparing { .. }
            | Phase::Starting { .. }
            | Phase::Stopping { .. }
            | Phase::Dead => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its state as the API shows it.
    pub fn state(&self) -> &TaskState {
        &self.state
    }

    /// Where it is in its life.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Its newest attempt; zero = none yet.
    pub fn run(&self) -> RunKey {
        RunKey::new(self.alloc, self.name.clone(), self.epoch)
    }

    /// Whether an attempt at it was ever made.
    pub(crate) fn has_begun(&self) -> bool {
        self.epoch != RunEpoch::default()
    }

    /// Whether it will not run again by itself and nothing of it is left running.
    pub fn is_dead(&self) -> bool {
        self.phase == Phase::Dead && self.strays.is_empty()
    }

    /// Whether a process of it may be alive.
    pub fn has_process(&self) -> bool {
        matches!(
            self.phase,
            Phase::Running | Phase::ShutdownDelay { .. } | Phase::Stopping { .. }
        )
    }

    /// Whether it is to run, and no attempt of it is under way.
    pub(crate) fn is_unbegun(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Delayed { .. })
    }

    /// Whether it waits for its stage, and nothing else keeps it from starting.
    pub(crate) fn may_start(&self) -> bool {
        self.phase == Phase::Waiting && self.strays.is_empty()
    }

    /// What of it survives the daemon.
    pub fn persisted(&self) -> PersistedTask {
        let open = match self.phase {
            Phase::Waiting | Phase::Delayed { .. } | Phase::Dead => AttemptState::Over,
            Phase::Preparing { .. }
            | Phase::Starting { .. }
            | Phase::Running
            | Phase::ShutdownDelay { .. }
            | Phase::Stopping { .. } => AttemptState::Open,
        };
        let delayed_until = match self.phase {
            Phase::Delayed { until } => Some(until),
            Phase::Waiting
            | Phase::Preparing { .. }
            | Phase::Starting { .. }
            | Phase::Running
            | Phase::ShutdownDelay { .. }
            | Phase::Stopping { .. }
            | Phase::Dead => None,
        };
        PersistedTask {
            epoch: self.epoch,
            attempt: open,
            state: self.state.clone(),
            restarts: self.restarts,
            prepared: self.prepared.clone(),
            fetched: self.fetched.clone(),
            delayed_until,
            stopping: match self.phase {
                Phase::Stopping { after } => Some(after),
                Phase::Waiting
                | Phase::Delayed { .. }
                | Phase::Preparing { .. }
                | Phase::Starting { .. }
                | Phase::Running
                | Phase::ShutdownDelay { .. }
                | Phase::Dead => None,
            },
        }
    }

    fn persist(&self, out: &mut Outbox) {
        out.journal(JournalRecord::Task {
            alloc: self.alloc,
            task: self.name.clone(),
            state: Box::new(self.persisted()),
        });
    }

    fn note(&mut self, line: TaskEvent) {
        self.state.push_event(line);
    }

    /// A line that says how far something has come takes the place of the one before it.
    fn note_progress(&mut self, line: TaskEvent) {
        self.state.push_progress(line);
    }

    fn task_of<'a>(&self, ctx: RunContext<'a>) -> Option<&'a Task> {
        ctx.spec.task(&self.name)
    }

    /// The task's restart policy, else its group's.
    fn restart_policy(&self, ctx: RunContext<'_>) -> RestartPolicy {
        self.task_of(ctx)
            .and_then(|task| task.restart_policy.clone())
            .or_else(|| ctx.spec.group().restart_policy.clone())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
