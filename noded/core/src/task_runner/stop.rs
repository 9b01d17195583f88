//! Why a task is made to stop, and what comes after.

use protocol_model::{TaskEvent, TaskEventKind, UnixNanos};
use serde::{Deserialize, Serialize};

use super::history::event;

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
    /// The allocation's directories could not be made.
    DirectoryFailed,
}

impl KillCause {
    /// The line that says so in a task's history, where there is more to say than that it is
    /// killed.
    pub(crate) fn line(self, at: UnixNanos) -> Option<TaskEvent> {
        let (kind, text) = match self {
            // What went wrong with them is in the history already.
            Self::AllocStopped | Self::DirectoryFailed => return None,
            Self::LeadTaskDead => (TaskEventKind::LeaderDead, "Leader Task in Group dead"),
            Self::SiblingFailed => (TaskEventKind::SiblingFailed, "Task's sibling failed"),
            Self::MainTasksDead => (TaskEventKind::MainTasksDead, "Main tasks in the group died"),
            Self::LeaseExpired => (
                TaskEventKind::Driver,
                "The control plane did not confirm this node within stop_on_client_after",
            ),
        };
        Some(event(kind, text, at))
    }

    /// Whether a task that dies of it has failed.
    pub(crate) fn fails_task(self) -> bool {
        match self {
            Self::DirectoryFailed => true,
            Self::AllocStopped
            | Self::LeadTaskDead
            | Self::SiblingFailed
            | Self::MainTasksDead
            | Self::LeaseExpired => false,
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
