//! Keeper, modelled: it runs what it is told, keeps how things ended until somebody acknowledges
//! it, and refuses a run epoch that is not above the highest it saw. It outlives daemons, not
//! hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use noded_core::event::{Exit, ExitStatus, KeptPhase, KeptRun, Recovery, RunEvent};
use noded_core::{Moment, RunEpoch, RunKey};
use protocol_model::{AllocId, Allocation};

use crate::event::{Event, HostEvent, NodeInput, NodeIx};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::rng::Rng;
use crate::schedule::jobs::{self, Kind};
use crate::time::{MICRO, MILLI, Nanos, SECOND, nanos, wall};
use crate::world::World;

/// What keeper holds.
#[derive(Debug, Default)]
pub struct Keeper {
    runs: BTreeMap<RunKey, KeptPhase>,
    highest: BTreeMap<(AllocId, String), RunEpoch>,
    /// Until when allocations may run.
    pub(super) leases: BTreeMap<AllocId, Moment>,
}

impl Keeper {
    /// Everything that it knows.
    pub fn list(&self) -> Vec<KeptRun> {
        let runs = self.runs.iter();
        runs.map(|(run, phase)| KeptRun {
            run: run.clone(),
            phase: phase.clone(),
        })
        .collect()
    }

    /// Runs whose process lives.
    pub fn live(&self) -> impl Iterator<Item = &RunKey> {
        let live = self.runs.iter().filter(|(_, phase)| {
            matches!(
                phase,
                KeptPhase::Starting | KeptPhase::Running { .. } | KeptPhase::Ending
            )
        });
        live.map(|(run, _)| run)
    }

    /// Whether a run's process lives.
    pub fn lives(&self, run: &RunKey) -> bool {
        matches!(self.runs.get(run), Some(KeptPhase::Running { .. }))
    }

    pub(super) fn release(&mut self, run: &RunKey) {
        self.runs.remove(run);
    }
}

impl World {
    /// Keeper is asked to start a run.
    pub(super) fn spawn(&mut self, ix: NodeIx, run: &RunKey) {
        let keeper = &mut self.nodes[ix as usize].keeper;
        let owner = (run.alloc, run.task.clone());
        let highest = keeper.highest.get(&owner).copied().unwrap_or_default();
        let lenient = self.mutant == Some(Mutant::KeeperForgetsEpochs);
        if run.epoch <= highest && !lenient {
            self.counts.refused_runs += 1;
            let event = RunEvent::StartFailed {
                message: "the run epoch is not above the highest".to_owned(),
                recovery: Recovery::Possible,
            };
            return self.tell_daemon(ix, run.clone(), event);
        }
        if self.lease_is_over(ix, run.alloc) {
            self.counts.refused_runs += 1;
            let event = RunEvent::StartFailed {
                message: "the lease has run out".to_owned(),
                recovery: Recovery::Possible,
            };
            return self.tell_daemon(ix, run.clone(), event);
        }
        let keeper = &mut self.nodes[ix as usize].keeper;
        keeper.highest.insert(owner, run.epoch.max(highest));
        keeper.runs.insert(run.clone(), KeptPhase::Starting);
        let wait = self.rng.between(200 * MICRO, 4 * MILLI);
        self.host_event(ix, wait, HostEvent::Executed(run.clone()));
        self.counts.starts += 1;
        self.note(|| format!("n{ix} starts {}", short(run)));
        self.observe(Observation::Spawned { node: ix, run });
    }

    /// Asks a run to end, `after` later with force.
    pub(super) fn stop_run(&mut self, ix: NodeIx, run: &RunKey, after: Nanos) {
        self.note(|| format!("n{ix} stops {}", short(run)));
        self.observe(Observation::StopAsked { node: ix, run });
        let keeper = &mut self.nodes[ix as usize].keeper;
        match keeper.runs.get_mut(run) {
            Some(KeptPhase::Running { stopping, .. }) => {
                *stopping = true;
                // Most tasks obey, some have to be killed.
                if !self.rng.chance(150) {
                    let wait = self.rng.between(MILLI, SECOND / 2);
                    self.host_event(ix, wait, HostEvent::Obeys(run.clone()));
                }
                self.host_event(ix, after, HostEvent::KillDue(run.clone()));
            }
            Some(KeptPhase::Starting | KeptPhase::Ending) => {}
            Some(KeptPhase::Exited(_) | KeptPhase::StartFailed { .. }) | None => {
                self.tell_unknown(ix, run);
            }
        }
    }

    /// Kills a run at once.
    pub(super) fn kill_run(&mut self, ix: NodeIx, run: &RunKey) {
        self.note(|| format!("n{ix} kills {}", short(run)));
        self.observe(Observation::StopAsked { node: ix, run });
        if self.nodes[ix as usize].keeper.lives(run) {
            self.end_run(ix, run, ExitStatus::Signal(9));
        } else if !self.nodes[ix as usize].keeper.runs.contains_key(run) {
            self.tell_unknown(ix, run);
        }
    }

    fn tell_unknown(&mut self, ix: NodeIx, run: &RunKey) {
        let known = self.nodes[ix as usize].keeper.runs.get(run);
        let exit = match known {
            Some(KeptPhase::Exited(exit)) => exit.clone(),
            _ => self.exit(ix, ExitStatus::Unknown),
        };
        self.tell_daemon(ix, run.clone(), RunEvent::Exited(exit));
    }

    fn exit(&self, ix: NodeIx, status: ExitStatus) -> Exit {
        Exit {
            status,
            oom_killed: false,
            signal_discarded: false,
            lease_expired: false,
            at: wall(self.now, self.nodes[ix as usize].skew),
        }
    }

    fn tell_daemon(&mut self, ix: NodeIx, run: RunKey, event: RunEvent) {
        if self.nodes[ix as usize].core.is_some() {
            let wait = self.rng.between(30 * MICRO, MILLI);
            self.node_input(ix, wait, NodeInput::Run { run, event });
        }
    }

    pub(super) fn host_event(&mut self, ix: NodeIx, wait: Nanos, event: HostEvent) {
        let boot = self.nodes[ix as usize].boot;
        self.queue.push(
            self.now + wait,
            Event::Host {
                node: ix,
                boot,
                event,
            },
        );
    }

    /// A daemon that was killed is started again.
    pub(crate) fn daemon_starts_later(&mut self, ix: NodeIx, wait: Nanos) {
        self.host_event(ix, wait, HostEvent::DaemonStarts);
    }

    pub(crate) fn on_host_event(&mut self, ix: NodeIx, boot: u32, event: HostEvent) {
        if self.nodes[ix as usize].boot != boot || !self.nodes[ix as usize].on {
            return;
        }
        match event {
            HostEvent::DaemonStarts => self.start_daemon(ix),
            HostEvent::Executed(run) => self.executed(ix, run),
            HostEvent::Ends(run) => {
                let kind = self.kind_of(run.alloc);
                let fails = kind == Some(Kind::Frail) || self.is_broken(run.alloc);
                let code = i32::from(fails || self.rng.chance(50));
                let calm = self.calm && kind == Some(Kind::Frail);
                // Once everything is healed nothing fails by itself any more.
                if !calm {
                    self.end_run(ix, &run, ExitStatus::Code(code));
                }
            }
            HostEvent::Obeys(run) => self.end_run(ix, &run, ExitStatus::Code(0)),
            HostEvent::LeaseDue(alloc) => self.lease_due(ix, alloc),
            HostEvent::KillDue(run) => self.end_run(ix, &run, ExitStatus::Signal(9)),
        }
    }

    fn executed(&mut self, ix: NodeIx, run: RunKey) {
        let at = wall(self.now, self.nodes[ix as usize].skew);
        let keeper = &mut self.nodes[ix as usize].keeper;
        let Some(phase) = keeper.runs.get_mut(&run) else {
            return;
        };
        if self.rng.chance(8) && !self.calm {
            let message = "exec failed".to_owned();
            *phase = KeptPhase::StartFailed {
                message: message.clone(),
            };
            let recovery = Recovery::Possible;
            return self.tell_daemon(ix, run, RunEvent::StartFailed { message, recovery });
        }
        *phase = KeptPhase::Running {
            pid: 1,
            at,
            stopping: false,
        };
        if let Some(kind) = self.kind_of(run.alloc) {
            let mut rng = Rng::new(self.rng.draw(), 0);
            let broken = self.is_broken(run.alloc);
            if let Some(wait) = jobs::end_of_task(kind, broken, &mut rng) {
                self.host_event(ix, wait, HostEvent::Ends(run.clone()));
            }
        }
        let alloc = run.alloc;
        self.tell_daemon(ix, run, RunEvent::Started { pid: 1, at });
        self.lease_due(ix, alloc);
    }

    /// The kind of the job that an allocation belongs to, whether the state still knows it or not.
    pub fn kind_of(&self, alloc: AllocId) -> Option<Kind> {
        self.kinds.get(&alloc).copied()
    }

    /// Whether its tasks fail as soon as they run.
    fn is_broken(&self, alloc: AllocId) -> bool {
        self.broken.contains(&alloc)
    }

    /// Notes what is placed: a host may have it for longer than the state.
    pub(crate) fn note_kinds(&mut self, placed: &[Arc<Allocation>]) {
        for alloc in placed {
            let offset = alloc.job_id.strip_prefix("job-");
            // A launch has the name of its parent first.
            let offset = offset.and_then(|it| it.split('/').next());
            let offset: Option<usize> = offset.and_then(|it| it.parse().ok());
            let kind = offset.and_then(|it| self.schedule.jobs.get(it).copied());
            if let Some(kind) = kind {
                self.kinds.insert(alloc.id, kind);
                let job = self.state().job_of_alloc(alloc);
                if job.is_some_and(|job| jobs::is_broken(kind, &job)) {
                    self.broken.insert(alloc.id);
                }
            }
        }
    }

    fn end_run(&mut self, ix: NodeIx, run: &RunKey, status: ExitStatus) {
        self.end_run_for(ix, run, status, false);
    }

    pub(super) fn end_run_for(
        &mut self,
        ix: NodeIx,
        run: &RunKey,
        status: ExitStatus,
        lease_expired: bool,
    ) {
        let exit = Exit {
            lease_expired,
            ..self.exit(ix, status)
        };
        let keeper = &mut self.nodes[ix as usize].keeper;
        let Some(phase @ KeptPhase::Running { .. }) = keeper.runs.get_mut(run) else {
            return;
        };
        *phase = KeptPhase::Exited(exit.clone());
        self.counts.ends += 1;
        self.note(|| format!("n{ix} {} ended: {status:?}", short(run)));
        self.observe(Observation::Ended {
            node: ix,
            run,
            lease_expired,
        });
        self.tell_daemon(ix, run.clone(), RunEvent::Exited(exit));
    }
}

/// A run as traces show it.
pub fn short(run: &RunKey) -> String {
    format!("{}#{}", run.alloc.short(), run.epoch.0)
}

/// How long a stop may take before force is used.
pub(super) fn after(duration: std::time::Duration) -> Nanos {
    nanos(duration)
}
