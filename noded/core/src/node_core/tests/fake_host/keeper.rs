//! keeper of the fake host: its runs, and what becomes of what is asked of them.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_model::{AllocId, TaskRunState};

use super::{FakeHost, FakeRun, Luck, Manners};
use crate::effect::{Effect, PreparedTemplate, Rendering, TaskHook};
use crate::event::{Event, Exit, ExitStatus, LeasesAnswer, Recovery, RunEvent, ScriptEnd};
use crate::journal::{self, JournalRecord};
use crate::key::RunKey;
use crate::test_support::at;
use crate::time::Moment;

impl FakeHost {
    /// A task's process ends by itself.
    pub(in crate::node_core::tests) fn exit(&mut self, run: &RunKey, status: ExitStatus) {
        self.end(run, status, false);
    }

    fn end(&mut self, run: &RunKey, status: ExitStatus, lease_expired: bool) {
        let exit = Exit {
            status,
            oom_killed: false,
            signal_discarded: false,
            lease_expired,
            at: at(self.now).wall,
        };
        if let Some(FakeRun::Running { .. }) = self.runs.get(run) {
            self.runs.insert(run.clone(), FakeRun::Ended(exit.clone()));
            self.answer(run, RunEvent::Exited(exit));
        }
    }

    pub(in crate::node_core::tests) fn live_runs(&self) -> Vec<RunKey> {
        let live = self
            .runs
            .iter()
            .filter(|(_, run)| matches!(run, FakeRun::Running { .. }));
        live.map(|(key, _)| key.clone()).collect()
    }

    pub(in crate::node_core::tests) fn live_run(&self, task: &str) -> RunKey {
        let live = self.live_runs();
        live.into_iter()
            .find(|run| run.task == task)
            .unwrap_or_else(|| panic!("{task} runs"))
    }

    /// At some times the cancel comes in time, at others the preparation was faster.
    pub(super) fn cancel(&mut self, run: &RunKey) {
        let faster = self.now % 2 == 1;
        for pending in &mut self.pending {
            if let Event::Run { run: of, event } = pending
                && of == run
                && matches!(event, RunEvent::Prepared { .. })
                && !faster
            {
                *event = RunEvent::PrepareFailed {
                    hook: TaskHook::Logs,
                    message: "cancelled".to_owned(),
                    recovery: Recovery::Cancelled,
                };
            }
        }
    }

    pub(super) fn next_kill(&self) -> Option<u64> {
        let deadlines = self.runs.iter().filter_map(|(key, run)| match run {
            FakeRun::Running { kill_at } => {
                let lease = self.leases.get(&key.alloc).copied();
                [*kill_at, lease].into_iter().flatten().min()
            }
            FakeRun::Ended(_) | FakeRun::NotStarted => None,
        });
        deadlines
            .min()
            .map(|at| u64::try_from(at.as_millis()).expect("soon"))
    }

    pub(super) fn kill_overdue(&mut self) {
        let now = at(self.now).moment.0;
        let overdue: Vec<RunKey> = self
            .runs
            .iter()
            .filter(|(_, run)| matches!(run, FakeRun::Running { kill_at: Some(at) } if *at <= now))
            .map(|(key, _)| key.clone())
            .collect();
        for run in overdue {
            self.exit(&run, ExitStatus::Signal(9));
        }
        for run in self.live_runs() {
            if self
                .leases
                .get(&run.alloc)
                .is_some_and(|until| *until <= now)
            {
                self.end(&run, ExitStatus::Signal(9), true);
            }
        }
    }

    /// As keeper and the daemon do it: all of what is to be extended, or nothing.
    pub(super) fn tend_leases(
        &mut self,
        extend: Vec<(AllocId, Moment)>,
        end: Vec<AllocId>,
    ) -> LeasesAnswer {
        for alloc in end {
            self.leases.remove(&alloc);
        }
        let (held, unrecordable) = (&self.leases, &self.unrecordable);
        let refused = |alloc| !held.contains_key(alloc) && unrecordable.contains(alloc);
        if extend.iter().any(|(alloc, _)| refused(alloc)) {
            return LeasesAnswer::Refused;
        }
        let extend = extend.into_iter().map(|(alloc, until)| (alloc, until.0));
        self.leases.extend(extend);
        LeasesAnswer::Done
    }

    /// Time passes, and nobody is there to see it but keeper.
    pub(in crate::node_core::tests) fn without_daemon_for(&mut self, millis: u64) {
        self.now += millis;
        self.kill_overdue();
    }

    /// Nothing is asked for a task that is dead.
    fn check_alive(&self, run: &RunKey, what: &str) {
        let Some(runner) = self.core.alloc(run.alloc) else {
            return;
        };
        let Some(task) = runner.tasks().get(&run.task) else {
            return;
        };
        let newest = task.run().epoch == run.epoch;
        assert!(
            !newest || task.state().state != TaskRunState::Dead,
            "{what} for {run}, which is dead"
        );
    }

    pub(super) fn execute_for_task(&mut self, effect: Effect) {
        match effect {
            Effect::PrepareTask(prepare) => {
                self.check_alive(&prepare.run, "prepare");
                self.log.push(format!("prepare {}", prepare.run.task));
                if self.luck != Luck::PrepareFails {
                    for artifact in &prepare.artifacts {
                        let artifact = artifact.offset;
                        self.answer(&prepare.run, RunEvent::Fetched { artifact });
                    }
                }
                let event = if self.luck == Luck::PrepareFails {
                    RunEvent::PrepareFailed {
                        hook: prepare.hooks[0],
                        message: "no".to_owned(),
                        recovery: Recovery::Possible,
                    }
                } else {
                    RunEvent::Prepared {
                        environment: BTreeMap::new(),
                    }
                };
                self.answer(&prepare.run, event);
                self.prepared.push(*prepare);
            }
            Effect::StartTask(start) => self.spawn(&start.run),
            Effect::StopTask {
                run,
                signal,
                kill_after,
            } => {
                self.check_alive(&run, "stop");
                self.log.push(format!("stop {} {signal}", run.task));
                let deadline = at(self.now).moment.0 + kill_after;
                if let Some(FakeRun::Running { kill_at }) = self.runs.get_mut(&run) {
                    *kill_at = Some(kill_at.map_or(deadline, |at| at.min(deadline)));
                }
                if self.manners == Manners::Ends {
                    self.exit(&run, ExitStatus::Code(0));
                }
            }
            Effect::KillTask { run } => self.exit(&run, ExitStatus::Signal(9)),
            Effect::SignalTask { run, signal } => {
                self.check_alive(&run, "signal");
                self.log.push(format!("signal {} {signal}", run.task));
            }
            Effect::FollowTemplates(work) => {
                self.log.push(format!("follow {}", work.run.task));
            }
            Effect::FollowIdentities(work) => {
                self.log.push(format!("identities {}", work.run.task));
            }
            Effect::RenderTemplates(work) => {
                let anew = |it: &&PreparedTemplate| it.rendering == Rendering::Anew;
                let written = work.templates.iter().filter(anew).map(|it| it.offset);
                let changed = written.collect();
                self.answer(&work.run, RunEvent::TemplatesRendered { changed });
            }
            Effect::RunChangeScript(script) => {
                let (offset, end) = (script.offset, ScriptEnd::Exited { code: 0 });
                self.answer(&script.run, RunEvent::ScriptEnded { offset, end });
            }
            Effect::ReleaseRun { run } => {
                let ended = self.runs.remove(&run);
                assert!(
                    !matches!(ended, Some(FakeRun::Running { .. })),
                    "{run} is let go while it runs"
                );
            }
            other => panic!("{other:?} is for no task"),
        }
    }

    /// As keeper does it: a run epoch only ever rises.
    fn spawn(&mut self, run: &RunKey) {
        self.check_alive(run, "start");
        let leased = self
            .core
            .alloc(run.alloc)
            .is_some_and(|runner| runner.spec().group().stop_on_client_after().is_some());
        assert!(
            !leased || self.leases.contains_key(&run.alloc),
            "{run} starts without a lease"
        );
        self.log.push(format!("start {}", run.task));
        let owner = (run.alloc, run.task.clone());
        let highest = self.highest.insert(owner, run.epoch).unwrap_or_default();
        assert!(run.epoch > highest, "{run} is not above {highest:?}");
        let twice = self
            .live_runs()
            .into_iter()
            .find(|live| live.alloc == run.alloc && live.task == run.task);
        assert_eq!(twice, None, "{run} starts while an earlier run is live");
        let runner = self.core.alloc(run.alloc);
        let previous = runner.and_then(|it| it.spec().alloc().previous_allocation);
        let before = previous.and_then(|id| self.live_runs().into_iter().find(|it| it.alloc == id));
        assert_eq!(before, None, "{run} starts before its predecessor ended");
        let intent = JournalRecord::Intent { run: run.clone() };
        let intent = journal::encode(&intent).expect("encodes");
        assert!(
            self.journal.contains(&intent),
            "{run} starts before its intent is journaled"
        );
        let expired = |until: &Duration| *until <= at(self.now).moment.0;
        if self.luck == Luck::StartFails || self.leases.get(&run.alloc).is_some_and(expired) {
            self.runs.insert(run.clone(), FakeRun::NotStarted);
            let (message, recovery) = ("no".to_owned(), Recovery::Possible);
            self.answer(run, RunEvent::StartFailed { message, recovery });
        } else {
            self.runs
                .insert(run.clone(), FakeRun::Running { kill_at: None });
            let event = RunEvent::Started {
                pid: 1,
                at: at(self.now).wall,
            };
            self.answer(run, event);
        }
    }
}
