//! What may be asked of an allocation, and how its tasks look to their group.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{AllocId, TaskRunState, UnixNanos};

use super::starting::role_of;
use super::{AllocRunner, PersistedAlloc, Removal};
use crate::alloc_spec::AllocSpec;
use crate::lifecycle::{Stage, TaskFacts};
use crate::task_runner::TaskRunner;

/// A task as its group sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) is_lead: bool,
    pub(crate) restarts: u64,
    pub(crate) facts: TaskFacts,
}

impl AllocRunner {
    /// Its id.
    pub fn id(&self) -> AllocId {
        self.spec.id()
    }

    /// What is wanted of it.
    pub fn spec(&self) -> &Arc<AllocSpec> {
        &self.spec
    }

    /// Its tasks by name.
    pub fn tasks(&self) -> &BTreeMap<String, TaskRunner> {
        &self.tasks
    }

    /// Its lifecycle stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether it is to be destroyed.
    pub fn removal(&self) -> Removal {
        self.removal
    }

    /// Whether every task is dead and nothing of it is left running.
    pub fn all_dead(&self) -> bool {
        self.tasks.values().all(TaskRunner::is_dead)
    }

    /// Whether an attempt at any of its tasks has begun, in whatever life of the daemon.
    pub(crate) fn has_begun(&self) -> bool {
        self.tasks.values().any(TaskRunner::has_begun)
    }

    /// Whether its tasks are being brought to their end, or are about to be.
    pub(crate) fn is_ending(&self) -> bool {
        (self.is_wanted_gone() || self.ending.is_some()) && !self.all_dead()
    }

    /// Whether the control plane wants it no more.
    pub(super) fn is_wanted_gone(&self) -> bool {
        self.spec.alloc().server_terminal() || self.removal != Removal::Kept
    }

    /// Whether a process of any of its tasks may be alive.
    pub(crate) fn has_process(&self) -> bool {
        self.tasks.values().any(TaskRunner::has_process)
    }

    /// When its last task ended, once all are dead.
    pub fn finished_at(&self) -> Option<UnixNanos> {
        let finished = self
            .tasks
            .values()
            .filter_map(|task| task.state().finished_at);
        finished.max().filter(|_| self.all_dead())
    }

    /// What of it as a whole survives the daemon.
    pub fn persisted(&self) -> PersistedAlloc {
        self.state.clone()
    }

    pub(super) fn dead_count(&self) -> usize {
        self.tasks.values().filter(|task| task.is_dead()).count()
    }

    pub(super) fn facts(&self) -> Vec<TaskFacts> {
        self.members().iter().map(|member| member.facts).collect()
    }

    pub(super) fn members(&self) -> Vec<Member> {
        let tasks = self.tasks.values();
        tasks
            .map(|task| Member {
                name: task.name().to_owned(),
                is_lead: self.spec.task(task.name()).is_some_and(|it| it.leader),
                restarts: task.state().restarts,
                facts: TaskFacts {
                    role: role_of(&self.spec, task.name()),
                    // A task is dead for its group once nothing of it is left running.
                    state: match task.state().state {
                        TaskRunState::Dead if !task.is_dead() => TaskRunState::Running,
                        state => state,
                    },
                    failed: task.state().failed,
                },
            })
            .collect()
    }
}
