//! What leases mean for runs.

use super::leases::{Held, LEASES_MAX, Recording};
use super::{Custody, Effect, Now, Phase};
use crate::protocol::{BootNanos, ExitCause, Lease, Refusal, TaskKey, is_alloc_id};
use std::collections::BTreeSet;

impl Custody {
    /// Whether all of these can be granted.
    pub(crate) fn check_leases(&self, leases: &[Lease]) -> Result<(), Refusal> {
        if let Some(lease) = leases.iter().find(|lease| !is_alloc_id(&lease.alloc)) {
            return Err(Refusal::Lease {
                alloc: lease.alloc.clone(),
                detail: "this is no allocation id".to_owned(),
            });
        }
        let new = leases
            .iter()
            .filter(|lease| !self.leases.contains(&lease.alloc))
            .count();
        if self.leases.len() + new > LEASES_MAX {
            return Err(Refusal::TooManyLeases {
                leases: u32::try_from(self.leases.len()).unwrap_or(u32::MAX),
            });
        }
        Ok(())
    }

    /// What has to be written before [`Custody::set_lease`].
    pub(crate) fn lease_recording(&self, lease: &Lease) -> Recording {
        self.leases.recording(&lease.alloc, lease.until)
    }

    /// The newest word counts, also where it brings the deadline nearer. `recorded` is what the
    /// lease's record says from now on; `None` when that was not written.
    pub(crate) fn set_lease(&mut self, lease: &Lease, recorded: Option<BootNanos>) {
        self.leases.set(&lease.alloc, lease.until, recorded);
    }

    pub(crate) fn end_lease(&mut self, alloc: &str) -> Option<Effect> {
        self.leases
            .remove(alloc)
            .then(|| Effect::RemoveLease(alloc.to_owned()))
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = (&str, Held)> {
        self.leases.iter()
    }

    /// Kills the runs of allocations whose leases have run out.
    pub(super) fn expire_leases(&mut self, now: Now) -> Vec<Effect> {
        // Many at once: a node that is cut off loses all of them together.
        let expired: BTreeSet<String> = self.leases.expire(now.boot).into_iter().collect();
        let keys: Vec<TaskKey> = self
            .runs
            .keys()
            .filter(|key| expired.contains(key.alloc()))
            .cloned()
            .collect();
        keys.into_iter()
            .filter_map(|key| self.expire_run(key))
            .collect()
    }

    fn expire_run(&mut self, key: TaskKey) -> Option<Effect> {
        match &mut self.runs.get_mut(&key)?.phase {
            Phase::Starting { cause, .. } => *cause = ExitCause::LeaseExpired,
            Phase::Running(running) => {
                running.cause = ExitCause::LeaseExpired;
                running.kill_at = None;
            }
            // Already on its way out.
            Phase::Failing { .. } | Phase::Ending(_) | Phase::Ended(_) => return None,
        }
        Some(Effect::KillTree(key))
    }
}
