//! What operators ask of an allocation on this node.

use protocol_model::AllocId;

use super::{AllocRunner, World};
use crate::lifecycle::Stage;
use crate::outbox::Outbox;
use crate::task_runner::TaskRefusal;
use crate::time::Now;

/// Which tasks of an allocation a restart means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestartScope {
    /// One running task.
    Task(String),
    /// Every running task.
    Running,
    /// Every task, those included that have finished: the group's life begins anew.
    All,
}

/// Which tasks of an allocation a signal means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SignalScope {
    /// One task.
    Task(String),
    /// Every running task.
    Running,
}

/// Why a command makes no sense now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// This node does not have it.
    #[error("this node has no allocation {alloc}")]
    UnknownAlloc {
        /// The allocation.
        alloc: AllocId,
    },
    /// It has no such task.
    #[error("the allocation has no task {task:?}")]
    UnknownTask {
        /// The task.
        task: String,
    },
    /// It is over, or about to be (Nomad's words).
    #[error("restart of an alloc that should not run")]
    AllocStopping,
    /// Nothing of it runs.
    #[error("no task of the allocation is running")]
    NothingRuns,
    /// The task is not in the right state.
    #[error("task {task:?} cannot do that now")]
    Task {
        /// The task.
        task: String,
        /// Why.
        #[source]
        refusal: TaskRefusal,
    },
}

impl AllocRunner {
    /// Restarts tasks.
    ///
    /// # Errors
    /// Where nothing that was named can be restarted.
    pub(crate) fn restart(
        &mut self,
        scope: RestartScope,
        world: World<'_>,
        out: &mut Outbox,
        now: Now,
    ) -> Result<(), CommandError> {
        // Its main tasks have finished, and poststop tasks clean up after them.
        let finished = self.stage == Stage::Poststop && scope == RestartScope::All;
        if self.ending.is_some() || self.all_dead() || self.is_wanted_gone() || finished {
            return Err(CommandError::AllocStopping);
        }
        let reason = "User requested restart";
        let Self {
            spec, tasks, state, ..
        } = self;
        let ctx = world.context(spec, &state.resources);
        match scope {
            RestartScope::Task(name) => {
                let Some(task) = tasks.get_mut(&name) else {
                    return Err(CommandError::UnknownTask { task: name });
                };
                task.restart(reason, ctx, out, now)
                    .map_err(|refusal| CommandError::Task {
                        task: name,
                        refusal,
                    })
            }
            RestartScope::Running => {
                let mut restarted = false;
                for task in tasks.values_mut() {
                    restarted |= task.restart(reason, ctx, out, now).is_ok();
                }
                if restarted {
                    Ok(())
                } else {
                    Err(CommandError::NothingRuns)
                }
            }
            RestartScope::All => {
                self.stage = Stage::Init;
                for task in tasks.values_mut() {
                    task.revive(reason, ctx, out, now);
                }
                Ok(())
            }
        }
    }

    /// Sends a signal to tasks.
    ///
    /// # Errors
    /// Where nothing that was named has a process.
    pub(crate) fn signal(
        &mut self,
        scope: SignalScope,
        signal: &str,
        out: &mut Outbox,
        now: Now,
    ) -> Result<(), CommandError> {
        match scope {
            SignalScope::Task(name) => {
                let Some(task) = self.tasks.get_mut(&name) else {
                    return Err(CommandError::UnknownTask { task: name });
                };
                task.signal(signal, out, now)
                    .map_err(|refusal| CommandError::Task {
                        task: name,
                        refusal,
                    })
            }
            SignalScope::Running => {
                let mut sent = false;
                for task in self.tasks.values_mut() {
                    sent |= task.signal(signal, out, now).is_ok();
                }
                if sent {
                    Ok(())
                } else {
                    Err(CommandError::NothingRuns)
                }
            }
        }
    }
}
