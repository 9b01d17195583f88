//! What noded asks of custody: what is granted, what is refused, and what follows.

use super::leases::Standing;
use super::{Custody, Delivery, Effect, Now, Phase};
use crate::protocol::{AllocAndTask, BootNanos, ExitCause, Refusal, StopMethod, TaskKey};

impl Custody {
    /// Whether a spawn of `key` would be accepted now.
    pub(crate) fn check_admission(&self, key: &TaskKey, now: BootNanos) -> Result<(), Refusal> {
        if let Some(highest) = self.floors.highest(key.owner())
            && key.run_epoch() <= highest
        {
            return Err(Refusal::StaleEpoch { highest });
        }
        if self.leases.standing(key.alloc(), now) == Standing::Expired {
            return Err(Refusal::LeaseExpired);
        }
        if let Some(alive) = self.alive_run_of(key.owner()) {
            return Err(Refusal::EarlierRunAlive { run_epoch: alive });
        }
        if self.runs.len() >= self.runs_max {
            return Err(Refusal::TooManyRuns {
                runs: self.run_count(),
            });
        }
        Ok(())
    }

    pub(crate) fn stop(
        &mut self,
        key: &TaskKey,
        delivery: Delivery,
        kill_after_ms: u64,
        now: Now,
    ) -> Result<(StopMethod, Vec<Effect>), Refusal> {
        let run = self.runs.get_mut(key).ok_or(Refusal::UnknownTask)?;
        match (&mut run.phase, delivery) {
            (Phase::Starting { cause, .. }, _) => {
                *cause = ExitCause::KillRequest;
                Ok((
                    StopMethod::KilledAtOnce,
                    vec![Effect::KillTree(key.clone())],
                ))
            }
            (Phase::Running(running), Delivery::Discarded) => {
                running.cause = ExitCause::SignalWouldBeDiscarded;
                running.kill_at = None;
                Ok((
                    StopMethod::KilledAtOnce,
                    vec![Effect::KillTree(key.clone())],
                ))
            }
            (Phase::Running(running), Delivery::Delivered) => {
                let asked = now.boot.plus_millis(kill_after_ms);
                let kill_at = running.kill_at.map_or(asked, |earlier| earlier.min(asked));
                running.kill_at = Some(kill_at);
                Ok((StopMethod::Signalled, vec![Effect::Persist(key.clone())]))
            }
            (Phase::Failing { .. } | Phase::Ending(_) | Phase::Ended(_), _) => {
                Ok((StopMethod::AlreadyEnding, Vec::new()))
            }
        }
    }

    pub(crate) fn kill(&mut self, key: &TaskKey) -> Result<Vec<Effect>, Refusal> {
        let run = self.runs.get_mut(key).ok_or(Refusal::UnknownTask)?;
        match &mut run.phase {
            Phase::Starting { cause, .. } => *cause = ExitCause::KillRequest,
            Phase::Running(running) => {
                running.cause = ExitCause::KillRequest;
                running.kill_at = None;
            }
            Phase::Failing { .. } | Phase::Ending(_) => {}
            Phase::Ended(_) => return Err(Refusal::AlreadyEnded),
        }
        Ok(vec![Effect::KillTree(key.clone())])
    }

    /// Whether a signal may be sent to the main process now.
    pub(crate) fn check_signal(&self, key: &TaskKey) -> Result<(), Refusal> {
        match self.runs.get(key).map(|run| &run.phase) {
            None => Err(Refusal::UnknownTask),
            Some(Phase::Running(_)) => Ok(()),
            Some(Phase::Starting { .. }) => Err(Refusal::StillStarting),
            Some(Phase::Failing { .. } | Phase::Ending(_) | Phase::Ended(_)) => {
                Err(Refusal::AlreadyEnded)
            }
        }
    }

    pub(crate) fn acknowledge(&mut self, key: &TaskKey) -> Result<Vec<Effect>, Refusal> {
        match self.runs.get(key).map(|run| &run.phase) {
            None => return Ok(Vec::new()),
            Some(Phase::Ended(_)) => {}
            Some(_) => {
                return Err(Refusal::EarlierRunAlive {
                    run_epoch: key.run_epoch(),
                });
            }
        }
        self.runs.remove(key);
        let is_highest = self.floors.highest(key.owner()) == Some(key.run_epoch());
        let record = if is_highest {
            Effect::PersistFloor(key.clone())
        } else {
            Effect::RemoveRecord(key.clone())
        };
        Ok(vec![record, Effect::Release(key.clone())])
    }

    /// Forgets the highest epochs of an allocation's tasks, except where a run is still known, and
    /// its lease when none is.
    pub(crate) fn forget(&mut self, alloc: &str) -> Vec<Effect> {
        let known: Vec<AllocAndTask> = self
            .floors
            .of_alloc(alloc)
            .filter(|owner| !self.runs.keys().any(|key| key.owner() == *owner))
            .cloned()
            .collect();
        let gone: Vec<TaskKey> = known
            .iter()
            .filter_map(|owner| self.floors.remove(owner))
            .collect();
        let mut effects = self.records_of_none(gone);
        if !self.runs.keys().any(|key| key.alloc() == alloc) {
            effects.extend(self.end_lease(alloc));
        }
        effects
    }

    fn alive_run_of(&self, owner: &AllocAndTask) -> Option<u64> {
        // The floor is the newest run, and an older one cannot be alive beside it.
        let highest = self.floors.highest(owner)?;
        let newest = TaskKey::new(owner.alloc(), owner.task(), highest).ok()?;
        let run = self.runs.get(&newest)?;
        (!matches!(run.phase, Phase::Ended(_))).then_some(highest)
    }
}
