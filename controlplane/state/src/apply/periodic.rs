//! Launches of periodic jobs. Each is judged alone, so that one that does not hold stops no other.

use protocol_model::{EvalTrigger, JobKey, PERIODIC_LAUNCH_INFIX, UnixNanos};

use super::draft::Draft;
use crate::applied::{LaunchResult, Launched, Outcome, Refusal, Signal};
use crate::command::{LAUNCHES_MAX, Launch, LaunchCause, PeriodicLaunch};
use crate::tables::Tables;

impl Draft {
    pub(crate) fn periodic_launch(&mut self, command: PeriodicLaunch) -> Result<Outcome, Refusal> {
        let launches = command.launches;
        if launches.len() > LAUNCHES_MAX {
            return Err(Refusal::malformed("more launches than one entry holds"));
        }
        for launch in &launches {
            let parent = launch.child.parent();
            let second = launch.at.0.div_euclid(1_000_000_000);
            let id = format!("{}{PERIODIC_LAUNCH_INFIX}{second}", parent.id);
            if launch.child.job.id != id {
                return Err(Refusal::malformed(
                    "a launch has the id of its parent and time",
                ));
            }
            self.check_eval_of(&launch.child.job.key(), launch.child.eval.as_ref())?;
        }
        let results: Result<_, _> = launches.into_iter().map(|it| self.launch(it)).collect();
        results.map(Outcome::PeriodicLaunched)
    }

    fn launch(&mut self, launch: Launch) -> Result<LaunchResult, Refusal> {
        let Launch { child, at, cause } = launch;
        let parent = child.parent();
        let template = self.tables.job(&parent);
        let Some(template) = template.filter(|it| it.launches_by_time()) else {
            return Ok(LaunchResult::NotTracked);
        };
        if template.job_modify_index != child.parent_index {
            return Ok(LaunchResult::ParentChanged);
        }
        let prohibits = template
            .periodic
            .as_ref()
            .is_some_and(|periodic| periodic.prohibit_overlap);
        if cause == LaunchCause::Schedule {
            if self
                .tables
                .last_launch(&parent)
                .is_some_and(|last| at <= last)
            {
                return Ok(LaunchResult::Earlier);
            }
            self.record_launch(&parent, at);
        }
        if let Some(known) = self.tables.job(&child.job.key()) {
            let (key, create_index) = (known.key(), known.create_index);
            let mut evals = self.tables.evals_by_job(&key);
            let first = evals.find(|eval| eval.triggered_by == EvalTrigger::PeriodicJob);
            return Ok(LaunchResult::Repeated(Launched {
                eval: first.map(|eval| eval.id),
                child: key,
                create_index,
            }));
        }
        if cause == LaunchCause::Schedule && prohibits && self.tables.has_live_launch(&parent) {
            return Ok(LaunchResult::Overlaps);
        }
        if let Err(Refusal::JobDenied(denied)) = self.tables.check_namespace_of_job(&child.job) {
            return Ok(LaunchResult::Denied(denied));
        }
        self.register_child(child).map(LaunchResult::Launched)
    }

    fn record_launch(&mut self, parent: &JobKey, at: UnixNanos) {
        self.tables.put_last_launch(parent, at);
        self.signal(Signal::LaunchRecorded(parent.clone()));
    }
}

impl Tables {
    /// The launch record of a periodic job: the time of its newest launch by schedule, skipped ones
    /// included, or of the registration of its schedule where that is later. Nothing is launched
    /// for times up to it.
    pub fn last_launch(&self, key: &JobKey) -> Option<UnixNanos> {
        self.jobs.get(key)?.last_launch
    }

    /// Whether a launch of a periodic job has a live allocation or an open evaluation.
    fn has_live_launch(&self, parent: &JobKey) -> bool {
        // As a rule all children ended, and there may be thousands of them.
        let open = self
            .children(parent)
            .map_or(0, |it| it.pending + it.running);
        let prefix = format!("{}{PERIODIC_LAUNCH_INFIX}", parent.id);
        open > 0
            && self
                .jobs_with_prefix(&parent.namespace, &prefix)
                .filter(|(_, job)| job.parent_id == parent.id)
                .filter_map(|(key, _)| self.job_tally(key))
                .any(|tally| tally.allocs_live > 0 || tally.evals_live > 0)
    }
}
