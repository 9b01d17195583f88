//! What calls want to know of the core, or want of it.

use std::sync::Arc;

use noded_core::node_core::AllocStatus;
use protocol_model::ForeignAlloc;

use super::Running;
use crate::calls::foreign::ForeignWish;
use crate::input::{AllocView, Liveness, Question};

impl Running {
    /// Answers; whoever asked may have gone away.
    pub(super) fn answer(&mut self, question: Question) {
        let now = self.shell.clock.now();
        let core = &mut self.shell.core;
        // Whoever asked may have gone away.
        match question {
            Question::Alloc { alloc, answer } => {
                let _ = answer.send(core.alloc(alloc).map(|runner| {
                    AllocView {
                        spec: Arc::clone(runner.spec()),
                        runs: runner
                            .tasks()
                            .values()
                            .map(|task| {
                                let liveness = if task.has_process() {
                                    Liveness::Alive
                                } else {
                                    Liveness::Ended
                                };
                                (task.run(), liveness)
                            })
                            .collect(),
                        over: runner.all_dead(),
                    }
                }));
            }
            Question::Backlog { answer } => {
                let _ = answer.send(core.batcher().backlog(now.moment));
            }
            Question::CollectGarbage { answer } => {
                core.collect_garbage(now);
                let _ = answer.send(());
            }
            Question::CollectAlloc { alloc, answer } => {
                let _ = answer.send(core.collect_alloc(alloc, now));
            }
            Question::Foreign { wish, answer } => {
                let known = core.foreign_allocs().filter_map(|id| core.alloc_status(id));
                let listed = known.map(|status| foreign(&status)).collect();
                if wish == ForeignWish::Release {
                    core.release_foreign(now);
                }
                let _ = answer.send(listed);
            }
            Question::Restart {
                alloc,
                scope,
                answer,
            } => {
                let _ = answer.send(core.restart(alloc, scope, now));
            }
            Question::Signal {
                alloc,
                scope,
                signal,
                answer,
            } => {
                let _ = answer.send(core.signal(alloc, scope, &signal, now));
            }
        }
    }
}

fn foreign(status: &AllocStatus) -> ForeignAlloc {
    let alloc = status.spec.alloc();
    ForeignAlloc {
        id: alloc.id,
        name: alloc.name.clone(),
        namespace: alloc.namespace.clone(),
        job_id: alloc.job_id.clone(),
        task_group: alloc.task_group.clone(),
        client_status: status.client_status,
    }
}
