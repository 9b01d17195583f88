//! A rollout replaces no more at once than its job allows: what a plan stops of older versions that
//! is well, and what is not healthy yet of the new one, together.

use controlplane_state::command::{Change, PlanApply};
use controlplane_state::{Command, Outcome, Snapshot};
use protocol_model::{Allocation, ClientStatus, Job, JobKey, NodeStatus};

use super::{Invariant, Observation};
use crate::schedule::jobs::{self, MAX_PARALLEL};
use crate::world::World;

#[derive(Debug)]
pub(super) struct RollsInSteps;

impl Invariant for RollsInSteps {
    fn name(&self) -> &'static str {
        "rolls_in_steps"
    }

    fn source(&self) -> &'static str {
        "update.max_parallel: a rollout waits for the health of what it has placed"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Applied {
            before,
            command: Command::PlanApply(plan),
            applied,
            ..
        } = seen
        else {
            return Ok(());
        };
        if applied.outcome != Outcome::PlanApplied || plan.changed.is_empty() {
            return Ok(());
        }
        for (job, kind) in world.schedule.jobs.iter().enumerate() {
            let key = JobKey::new("default", jobs::name(job));
            if jobs::is_rolled_out(*kind) {
                check(before, plan, &key)?;
            }
        }
        Ok(())
    }
}

fn check(before: &Snapshot, plan: &PlanApply, key: &JobKey) -> Result<(), String> {
    let Some(job) = before.job(key) else {
        return Ok(());
    };
    // What was asked for after the plan's snapshot is for the next one.
    if job.stop || job.job_modify_index > plan.snapshot_index {
        return Ok(());
    }
    let stopped = plan.changed.iter().filter(|change| {
        let alloc = before.alloc(change.id);
        matches!(change.change, Change::Stop { .. })
            && alloc.is_some_and(|alloc| {
                alloc.job_key() == *key && is_older(before, alloc, job) && is_single(before, alloc)
            })
    });
    let stopped = stopped.count();
    if stopped == 0 {
        return Ok(());
    }
    let deployment = before.latest_deployment(key).map(|it| it.id);
    let allocs = || before.allocs_by_job(key);
    let unproven = allocs().filter(|alloc| {
        // What changed after the plan's snapshot was silent then, perhaps.
        let known = alloc.modify_index <= plan.snapshot_index;
        let health = alloc.deployment_status.as_ref().and_then(|it| it.healthy);
        let here = !alloc.terminal() && alloc.client_status != ClientStatus::Unknown;
        let of_it = alloc.job_version == job.version && alloc.deployment_id == deployment;
        known && of_it && here && health != Some(true) && is_well(before, alloc)
    });
    let unproven = unproven.count();
    // Those beyond the count go anyway.
    let count = job
        .task_groups
        .iter()
        .map(|group| group.count() as usize)
        .sum();
    let live = allocs().filter(|alloc| !alloc.terminal()).count();
    let step = (MAX_PARALLEL as usize).saturating_sub(unproven);
    let allowed = step + live.saturating_sub(count);
    if stopped > allowed {
        return Err(format!(
            "{}: {stopped} are stopped for a new version and {unproven} of it are not healthy yet, \
             {allowed} may be",
            key.id
        ));
    }
    Ok(())
}

/// Whether it is of an older version, runs, and nothing else speaks against it.
fn is_older(before: &Snapshot, alloc: &Allocation, job: &Job) -> bool {
    let older = alloc.job_version != job.version && alloc.job_create_index == job.create_index;
    older && alloc.client_status == ClientStatus::Running && is_well(before, alloc)
}

/// Whether nobody else has its number: of two, one goes.
fn is_single(before: &Snapshot, alloc: &Allocation) -> bool {
    let key = alloc.job_key();
    let mut others = before.allocs_by_job(&key).filter(|it| it.id != alloc.id);
    !others.any(|it| it.index() == alloc.index() && !it.terminal())
}

fn is_well(before: &Snapshot, alloc: &Allocation) -> bool {
    before
        .node(alloc.node_id)
        .is_some_and(|record| record.node.status == NodeStatus::Ready && !record.node.drain)
}
