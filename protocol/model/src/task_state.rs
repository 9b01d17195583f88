//! What a node reports about one task: its state, its counters and its newest events.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::instant::{UnixNanos, rfc3339};
use crate::nullable;

/// How many events are kept per task; the oldest go first (as Nomad keeps them).
pub const TASK_EVENTS_MAX: usize = 10;

/// Where a task is in its life.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum TaskRunState {
    /// Not started yet, or waiting for its next start.
    #[default]
    Pending,
    /// Its process runs.
    Running,
    /// It will not run again in this allocation, unless an operator restarts it.
    Dead,
}

/// One task's state as the API shows it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskState {
    /// Pending, running or dead.
    pub state: TaskRunState,
    /// Whether the task's last end counts as a failure.
    pub failed: bool,
    /// How often it was restarted in this allocation.
    pub restarts: u64,
    /// When it was last restarted.
    #[serde(with = "rfc3339")]
    pub last_restart: Option<UnixNanos>,
    /// When it first ran.
    #[serde(with = "rfc3339")]
    pub started_at: Option<UnixNanos>,
    /// When it became dead.
    #[serde(with = "rfc3339")]
    pub finished_at: Option<UnixNanos>,
    /// The newest [`TASK_EVENTS_MAX`] events, oldest first. Volatile: not replicated, merged in by
    /// whoever has heard them from the node. Shared: a state is copied into every report and every
    /// record of a journal, its events never change.
    #[serde(with = "nullable")]
    pub events: Vec<Arc<TaskEvent>>,
}

impl TaskState {
    /// Appends an event, dropping the oldest beyond [`TASK_EVENTS_MAX`].
    pub fn push_event(&mut self, event: TaskEvent) {
        if self.events.len() >= TASK_EVENTS_MAX {
            let surplus = self.events.len() + 1 - TASK_EVENTS_MAX;
            self.events.drain(..surplus);
        }
        self.events.push(Arc::new(event));
    }

    /// Appends a line that says how far something has come; it takes the place of a newest line
    /// of the same kind that says that, too. So what moves does not push the history out.
    pub fn push_progress(&mut self, event: TaskEvent) {
        let is_progress = |line: &TaskEvent| line.details.contains_key(TaskEvent::PROGRESS);
        let newest = self.events.last();
        if newest.is_some_and(|line| line.kind == event.kind && is_progress(line)) {
            self.events.pop();
        }
        self.push_event(event);
    }

    /// This state without its events: what is replicated of an allocation that lives.
    #[must_use]
    pub fn without_events(&self) -> Self {
        let Self {
            state,
            failed,
            restarts,
            last_restart,
            started_at,
            finished_at,
            events: _,
        } = self;
        Self {
            state: *state,
            failed: *failed,
            restarts: *restarts,
            last_restart: *last_restart,
            started_at: *started_at,
            finished_at: *finished_at,
            events: Vec::new(),
        }
    }

    /// Whether both say the same, whatever their events.
    pub fn same_but_events(&self, other: &Self) -> bool {
        // Nothing is allocated for a state without events.
        self.without_events() == other.without_events()
    }

    /// Whether the task ended well.
    pub fn successful(&self) -> bool {
        self.state == TaskRunState::Dead && !self.failed
    }
}

/// The kinds of task event that users see in `alloc status`, spelled as Nomad spells them.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum TaskEventKind {
    /// The node accepted the task.
    #[default]
    Received,
    /// The task's directory is being prepared.
    #[serde(rename = "Task Setup")]
    TaskSetup,
    /// Preparation failed.
    #[serde(rename = "Setup Failure")]
    SetupFailure,
    /// The process runs.
    Started,
    /// The process could not be started.
    #[serde(rename = "Driver Failure")]
    DriverFailure,
    /// The driver says something.
    Driver,
    /// The process ended.
    Terminated,
    /// It will be started again after a delay.
    Restarting,
    /// It will not be started again.
    #[serde(rename = "Not Restarting")]
    NotRestarting,
    /// Someone asked for a restart.
    #[serde(rename = "Restart Signaled")]
    RestartSignaled,
    /// Someone asked for a signal.
    Signaling,
    /// It is being stopped.
    Killing,
    /// It was stopped.
    Killed,
    /// Its leader ended.
    #[serde(rename = "Leader Task Dead")]
    LeaderDead,
    /// Another task of its group failed.
    #[serde(rename = "Sibling Task Failed")]
    SiblingFailed,
    /// All main tasks of its group ended.
    #[serde(rename = "Main Tasks Dead")]
    MainTasksDead,
    /// It waits before it is stopped.
    #[serde(rename = "Waiting for shutdown delay")]
    ShutdownDelay,
    /// The node was away and is back.
    Reconnected,
    /// A hook says something.
    #[serde(rename = "Task hook message")]
    HookMessage,
    /// A hook failed.
    #[serde(rename = "Task hook failed")]
    HookFailed,
    /// The node's daemon found the task again after it was restarted itself.
    Restored,
    /// The artifacts are being fetched.
    #[serde(rename = "Downloading Artifacts")]
    DownloadingArtifacts,
    /// An artifact could not be fetched.
    #[serde(rename = "Failed Artifact Download")]
    ArtifactDownloadFailed,
    /// The allocation's directories are larger than its disk.
    #[serde(rename = "Disk Resources Exceeded")]
    DiskExceeded,
    /// A template says something.
    Template,
    /// A kind that this release does not know.
    #[serde(other)]
    Other,
}

/// One line of a task's history.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskEvent {
    /// What happened.
    #[serde(rename = "Type")]
    pub kind: TaskEventKind,
    /// When, by the node's clock.
    pub time: UnixNanos,
    /// The text that people read.
    pub display_message: String,
    /// The same facts as key and value: `exit_code`, `signal`, `oom_killed`, `restart_reason`...
    #[serde(with = "nullable")]
    pub details: BTreeMap<String, String>,
    /// The exit code, where the kind has one.
    pub exit_code: i32,
    /// The signal number, where the kind has one.
    pub signal: i32,
    /// Whether this event makes the task failed.
    pub fails_task: bool,
}

impl TaskEvent {
    /// The detail that marks a line as one that says how far something has come.
    pub const PROGRESS: &'static str = "progress";

    /// An event with a text.
    pub fn new(kind: TaskEventKind, message: impl Into<String>, now: UnixNanos) -> Self {
        Self {
            kind,
            time: now,
            display_message: message.into(),
            ..Self::default()
        }
    }

    /// The same event with one more fact.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers pass numbers and texts as they are"
    )]
    pub fn with_detail(mut self, key: &str, value: impl ToString) -> Self {
        self.details.insert(key.to_owned(), value.to_string());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_events_are_kept() {
        let mut state = TaskState::default();
        for number in 0..25 {
            state.push_event(TaskEvent::new(TaskEventKind::Driver, "", UnixNanos(number)));
        }
        assert_eq!(state.events.len(), TASK_EVENTS_MAX);
        assert_eq!(state.events[0].time, UnixNanos(15));
    }

    #[test]
    fn event_kinds_are_spelled_as_users_know_them() -> Result<(), serde_json::Error> {
        assert_eq!(
            serde_json::to_string(&TaskEventKind::NotRestarting)?,
            "\"Not Restarting\""
        );
        assert_eq!(
            serde_json::from_str::<TaskEventKind>("\"New\"")?,
            TaskEventKind::Other
        );
        Ok(())
    }
}
