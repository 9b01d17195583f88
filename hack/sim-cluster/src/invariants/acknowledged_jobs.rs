//! A job whose registration was acknowledged is in every state that is as new, in that version or a
//! later one: jobs that were stopped stay for longer than any run.

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug)]
pub(super) struct AcknowledgedJobs;

impl Invariant for AcknowledgedJobs {
    fn name(&self) -> &'static str {
        "acknowledged_jobs"
    }

    fn source(&self) -> &'static str {
        "an acknowledged job is never lost"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        if !matches!(seen, Observation::Look | Observation::Rested) {
            return Ok(());
        }
        for (server, state) in view.states() {
            for (key, acknowledged) in &view.promises.acknowledged {
                if state.index() < *acknowledged {
                    continue;
                }
                let found = state.job(key).map(|job| job.job_modify_index);
                if found.is_none_or(|index| index < *acknowledged) {
                    return Err(format!(
                        "{key}: {acknowledged} was acknowledged, s{server} at {} has {found:?}",
                        state.index()
                    ));
                }
            }
        }
        Ok(())
    }
}
