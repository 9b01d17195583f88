//! Why a task is made to stop, how, and what comes after.

use std::time::Duration;

use protocol_model::{JobType, Task, TaskEvent, TaskEventKind, TaskRunState, UnixNanos};
use serde::{Deserialize, Serialize};

use super::history::event;
use super::{Phase, RunContext, ShutdownDelay, TaskRunner, history};
use crate::effect::Effect;
use crate::outbox::Outbox;
use crate::time::Now;

/// The signal of drivers that run programs directly, where a job names none (Nomad's default).
const KILL_SIGNAL_DEFAULT: &str = "SIGINT";

/// Why tasks are killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillCause {
    /// The control plane wants the allocation stopped, or does not know it any more.
    AllocStopped,
    /// The group's lead task ended.
    LeadTaskDead,
    /// A task of the group failed.
    SiblingFailed,
    /// Only sidecars are left.
    MainTasksDead,
    /// The control plane did not hear this node within `stop_on_client_after`.
    LeaseExpired,
    /// A hook of the allocation failed.
    PreparationFailed,
    /// The change script of a template failed, and the job wants the task to fail with it.
    ChangeScriptFailed,
}

impl KillCause {
    /// The line that says so in a task's history, where there is more to say than that it is
    /// killed.
    pub(crate) fn line(self, at: UnixNanos) -> Option<TaskEvent> {
        let (kind, text) = match self {
            // What went wrong with them is in the history already.
            Self::AllocStopped | Self::PreparationFailed => return None,
            Self::LeadTaskDead => (TaskEventKind::LeaderDead, "Leader Task in Group dead"),
            Self::SiblingFailed => (TaskEventKind::SiblingFailed, "Task's sibling failed"),
            Self::MainTasksDead => (TaskEventKind::MainTasksDead, "Main tasks in the group died"),
            Self::LeaseExpired => (
                TaskEventKind::Driver,
                "The control plane did not confirm this node within stop_on_client_after",
            ),
            Self::ChangeScriptFailed => (
                TaskEventKind::Killing,
                "Template script failed, task is being killed",
            ),
        };
        Some(event(kind, text, at))
    }

    /// Whether a task that dies of it has failed.
    pub(crate) fn fails_task(self, job: JobType) -> bool {
        match self {
            Self::PreparationFailed | Self::ChangeScriptFailed => true,
            // What is to run to its end did not.
            Self::LeaseExpired => job.runs_to_completion(),
            Self::AllocStopped | Self::LeadTaskDead | Self::SiblingFailed | Self::MainTasksDead => {
                false
            }
        }
    }
}

/// What comes after the end of a run that is being stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterStop {
    /// The task is dead.
    Die(KillCause),
    /// It runs again at once, whatever its restart policy says.
    Restart,
}

impl AfterStop {
    /// Both wishes together: a kill wins over a restart, and the first kill over later ones.
    pub(crate) fn merge(self, wish: Self) -> Self {
        match (self, wish) {
            (Self::Die(cause), _) => Self::Die(cause),
            (Self::Restart, wish) => wish,
        }
    }
}

impl TaskRunner {
    /// The process runs and is to end: waits for `shutdown_delay` first, where the job has one.
    pub(super) fn begin_kill(
        &mut self,
        cause: KillCause,
        delay: ShutdownDelay,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let wait = self
            .task_of(ctx)
            .map_or(Duration::ZERO, |task| task.shutdown_delay);
        if delay == ShutdownDelay::Skip || wait.is_zero() {
            self.begin_stop(AfterStop::Die(cause), ctx, out, now);
            return;
        }
        self.note(history::shutdown_delay(wait, now.wall));
        self.phase = Phase::ShutdownDelay {
            until: now.moment.after(wait),
            cause,
        };
    }

    /// Asks keeper to end the process, with a deadline that keeper keeps by itself.
    pub(super) fn begin_stop(
        &mut self,
        after: AfterStop,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let task = self.task_of(ctx);
        let signal = task
            .map(|task| task.kill_signal.as_str())
            .filter(|signal| !signal.is_empty())
            .unwrap_or(KILL_SIGNAL_DEFAULT);
        let kill_after = task
            .map_or(Duration::ZERO, Task::kill_timeout)
            .min(ctx.settings.kill_timeout_max);
        self.note(history::killing(signal, kill_after, now.wall));
        self.phase = Phase::Stopping { after };
        // The end that follows must not look like a failure to the next daemon.
        self.persist(out);
        out.push(Effect::StopTask {
            run: self.run(),
            signal: signal.to_owned(),
            kill_after,
        });
    }

    /// A task without a process dies at once.
    pub(super) fn die_killed(
        &mut self,
        cause: KillCause,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        self.set_dead_killed(cause, ctx, now);
        self.persist(out);
    }

    pub(super) fn set_dead_killed(&mut self, cause: KillCause, ctx: RunContext<'_>, now: Now) {
        self.note(history::killed(now.wall));
        if cause.fails_task(ctx.spec.job().job_type) {
            self.set_dead_failed(now);
            return;
        }
        self.phase = Phase::Dead;
        self.state.state = TaskRunState::Dead;
        self.state.finished_at = Some(now.wall);
    }
}
