//! What keeper says of runs, and what it does not know any more.

use noded_core::driver::Ability;
use noded_core::event::{Exit, ExitStatus, RunEvent};
use noded_core::task_runner::Phase;
use noded_core::{Event, RunKey};
use noded_keeper::protocol::TaskReport;

use super::Running;
use crate::drivers;
use crate::keeper_events;
use crate::keeper_link::KeeperNews;

impl Running {
    pub(super) fn keeper_said(&mut self, news: KeeperNews) {
        match news {
            KeeperNews::Event(event) => {
                let (key, event) = keeper_events::run_event(event);
                let Some(run) = keeper_events::run_key(&key) else {
                    tracing::warn!(%key, "keeper reported a run that this node does not know");
                    return;
                };
                let event = Event::Run { run, event };
                let now = self.shell.clock.now();
                self.shell.core.on_event(event, now);
            }
            KeeperNews::Relisted(listing) => self.relisted(&listing),
        }
    }

    /// The connection to keeper was lost: what it knows now, and what it does not know any more.
    fn relisted(&mut self, listing: &[TaskReport]) {
        let mut missed: Vec<(RunKey, RunEvent)> = listing
            .iter()
            .filter_map(|report| {
                let run = keeper_events::run_key(&report.key)?;
                Some((run, keeper_events::missed_event(report)?))
            })
            .collect();
        let listed: Vec<RunKey> = listing
            .iter()
            .filter_map(|report| keeper_events::run_key(&report.key))
            .collect();
        for alloc in self.shell.core.allocs() {
            for task in alloc.tasks().values() {
                // One that is starting may not have been asked for yet; whoever asks gets an
                // answer.
                let gone = match task.phase() {
                    Phase::Running | Phase::ShutdownDelay { .. } | Phase::Stopping { .. } => {
                        !listed.contains(&task.run())
                    }
                    Phase::Waiting
                    | Phase::Delayed { .. }
                    | Phase::Preparing { .. }
                    | Phase::Starting { .. }
                    | Phase::Dead => false,
                };
                let of_keeper = alloc.spec().task(task.name()).is_some_and(|task| {
                    let driver = drivers::find(&task.driver);
                    driver.is_none_or(|it| it.capabilities().has(Ability::Processes))
                });
                if gone && of_keeper {
                    missed.push((task.run(), self.lost_run()));
                }
            }
        }
        for run in self.shell.core.runs_without_spec() {
            if !listed.contains(&run) {
                missed.push((run, self.lost_run()));
            }
        }
        for (run, event) in missed {
            let now = self.shell.clock.now();
            self.shell.core.on_event(Event::Run { run, event }, now);
        }
    }

    /// The end of a run that keeper does not know any more.
    fn lost_run(&self) -> RunEvent {
        RunEvent::Exited(Exit {
            status: ExitStatus::Unknown,
            oom_killed: false,
            signal_discarded: false,
            lease_expired: false,
            at: self.shell.clock.wall(),
        })
    }
}
