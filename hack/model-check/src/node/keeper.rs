//! Keeper, modelled: it runs what it is told, at once, keeps how things ended until somebody
//! acknowledges it, and refuses a run epoch that is not above the highest it saw. It outlives
//! daemons, not hosts.

use std::collections::BTreeMap;

use noded_core::event::{Exit, ExitStatus, KeptPhase, KeptRun, Recovery, RunEvent};
use noded_core::{RunEpoch, RunKey};
use protocol_model::{AllocId, UnixNanos};

/// What keeper holds.
#[derive(Clone, Debug, Default)]
pub struct Keeper {
    runs: BTreeMap<RunKey, KeptPhase>,
    highest: BTreeMap<(AllocId, String), RunEpoch>,
}

impl Keeper {
    pub(super) fn list(&self) -> Vec<KeptRun> {
        let runs = self.runs.iter();
        runs.map(|(run, phase)| KeptRun {
            run: run.clone(),
            phase: phase.clone(),
        })
        .collect()
    }

    /// Runs whose process lives.
    pub fn live(&self) -> impl Iterator<Item = &RunKey> {
        let live = self
            .runs
            .iter()
            .filter(|(_, phase)| matches!(phase, KeptPhase::Running { .. }));
        live.map(|(run, _)| run)
    }

    pub fn lives(&self, run: &RunKey) -> bool {
        matches!(self.runs.get(run), Some(KeptPhase::Running { .. }))
    }

    /// Starts a run, unless its epoch was there already.
    pub(super) fn start(&mut self, run: &RunKey, at: UnixNanos) -> RunEvent {
        let owner = (run.alloc, run.task.clone());
        let highest = self.highest.get(&owner).copied().unwrap_or_default();
        if run.epoch <= highest {
            return RunEvent::StartFailed {
                message: "the run epoch is not above the highest".to_owned(),
                recovery: Recovery::Possible,
            };
        }
        self.highest.insert(owner, run.epoch.max(highest));
        let running = KeptPhase::Running {
            pid: 1,
            at,
            stopping: false,
        };
        self.runs.insert(run.clone(), running);
        RunEvent::Started { pid: 1, at }
    }

    /// Ends a run; what it never heard of ended nobody knows how.
    pub(super) fn end(&mut self, run: &RunKey, status: ExitStatus, at: UnixNanos) -> RunEvent {
        let exit = |status| Exit {
            status,
            oom_killed: false,
            signal_discarded: false,
            lease_expired: false,
            at,
        };
        match self.runs.get_mut(run) {
            Some(KeptPhase::Exited(known)) => RunEvent::Exited(known.clone()),
            Some(phase) => {
                *phase = KeptPhase::Exited(exit(status));
                RunEvent::Exited(exit(status))
            }
            None => RunEvent::Exited(exit(ExitStatus::Unknown)),
        }
    }

    pub(super) fn release(&mut self, run: &RunKey) {
        self.runs.remove(run);
    }
}
