//! What calls want to know of the core, or want of it.

use std::sync::Arc;

use super::Running;
use crate::clock;
use crate::input::{AllocCounts, AllocView, Liveness, Question};

impl Running {
    /// Answers; whoever asked may have gone away.
    pub(super) fn answer(&mut self, question: Question) {
        let now = clock::now();
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
            Question::Counts { answer } => {
                let mut counts = AllocCounts::default();
                for runner in core.allocs() {
                    if runner.all_dead() {
                        counts.over += 1;
                    } else {
                        counts.live += 1;
                    }
                }
                let _ = answer.send(counts);
            }
            Question::CollectGarbage { answer } => {
                core.collect_garbage(now);
                let _ = answer.send(());
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
