//! A job whose registration was acknowledged is in the state, in that version or a later one, until
//! somebody stops it.

use controlplane_state::Command;
use protocol_model::JobStatus;

use super::{Invariant, Observation};
use crate::world::World;

#[derive(Debug)]
pub(super) struct AcknowledgedJobs;

impl Invariant for AcknowledgedJobs {
    fn name(&self) -> &'static str {
        "acknowledged_jobs"
    }

    fn source(&self) -> &'static str {
        "an acknowledged job is never lost"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if let Observation::Applied {
            before,
            after,
            command: Command::GcCollect(collected),
            ..
        } = seen
        {
            let alive = collected.jobs.iter().find(|key| {
                let dead = before
                    .job(key)
                    .is_none_or(|job| job.status == JobStatus::Dead);
                !dead && after.job(key).is_none()
            });
            return match alive {
                None => Ok(()),
                Some(key) => Err(format!("{key} was collected while it lived")),
            };
        }
        if !matches!(seen, Observation::Second | Observation::Rested) {
            return Ok(());
        }
        for (key, acknowledged) in &world.clients.acknowledged {
            let job = world.state().job(key);
            let stopped = world.clients.stopped_at.get(key).copied().unwrap_or(0);
            let there = job.is_some_and(|job| job.job_modify_index >= *acknowledged);
            if !there && stopped < *acknowledged {
                let found = job.map(|job| job.job_modify_index);
                return Err(format!(
                    "{key}: acknowledged {acknowledged}, found {found:?}"
                ));
            }
        }
        Ok(())
    }
}
