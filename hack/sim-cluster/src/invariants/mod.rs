//! What must hold, one file each. An invariant sees what happens and may look at every machine.

mod acknowledged_jobs;
mod ended_is_ended;
mod healthy_not_killed;
mod leases_end;
mod leases_go_on;
mod never_again;
mod new_tokens_count;
mod one_leader;
mod one_leased;
mod one_live_run;
mod reads_are_current;
mod ready_after_sync;
mod revoked_reads_nothing;
mod revoked_writes_nothing;
mod same_state;
mod servers_alone;
mod waits_end;
mod watermark;

use std::fmt::Debug;

use crate::eyes::{Observation, View};

/// Something that must hold.
pub trait Invariant: Debug + Send {
    /// Its name, as failures and tests have it.
    fn name(&self) -> &'static str;

    /// Where it is promised.
    fn source(&self) -> &'static str;

    /// Looks at what happened.
    ///
    /// # Errors
    /// Where it does not hold: what was seen.
    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String>;
}

/// All of them, new for one run. That everything comes to rest is looked at by the run itself.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(acknowledged_jobs::AcknowledgedJobs),
        Box::<same_state::SameState>::default(),
        Box::<one_leader::OneLeader>::default(),
        Box::<leases_end::LeasesEnd>::default(),
        Box::new(leases_go_on::LeasesGoOn),
        Box::<one_leased::OneLeased>::default(),
        Box::new(one_live_run::OneLiveRun),
        Box::new(never_again::NeverAgain),
        Box::new(ended_is_ended::EndedIsEnded),
        Box::new(healthy_not_killed::HealthyNotKilled),
        Box::<ready_after_sync::ReadyAfterSync>::default(),
        Box::new(new_tokens_count::NewTokensCount),
        Box::new(revoked_reads_nothing::RevokedReadsNothing),
        Box::<revoked_writes_nothing::RevokedWritesNothing>::default(),
        Box::<waits_end::WaitsEnd>::default(),
        Box::new(reads_are_current::ReadsAreCurrent),
        Box::<watermark::WatermarkRises>::default(),
        Box::<servers_alone::ServersAlone>::default(),
    ]
}
