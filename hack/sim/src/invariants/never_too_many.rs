//! What runs and what takes the place of the silent never exceed what is wanted, as the control
//! plane records it: whoever is not silent is within the count, with a number of its own, and so
//! are silent ones that nobody replaces.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::command::PlanApply;
use controlplane_state::{Command, Outcome, Snapshot};
use protocol_model::{Allocation, ClientStatus, JobKey, JobType, TaskGroup};

use super::{Invariant, Observation};
use crate::world::World;

#[derive(Debug)]
pub(super) struct NeverTooMany;

impl Invariant for NeverTooMany {
    fn name(&self) -> &'static str {
        "never_too_many"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: running + replacements never exceed count + \
         what the window allows"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &World) -> Result<(), String> {
        // Only a plan adds anybody. A lower count, or a node that is back, may leave too many until
        // the next one.
        let Observation::Applied {
            after,
            command: Command::PlanApply(plan),
            applied,
            ..
        } = seen
        else {
            return Ok(());
        };
        if applied.outcome != Outcome::PlanApplied {
            return Ok(());
        }
        for key in placed_for(plan) {
            check(after, plan, &key)?;
        }
        Ok(())
    }
}

fn placed_for(plan: &PlanApply) -> BTreeSet<JobKey> {
    plan.placed.iter().map(|alloc| alloc.job_key()).collect()
}

fn check(after: &Snapshot, plan: &PlanApply, key: &JobKey) -> Result<(), String> {
    let Some(job) = after.job(key) else {
        return Ok(());
    };
    // What was asked for after the plan's snapshot is for the next one.
    let changed_since = job.job_modify_index > plan.snapshot_index;
    let counts = matches!(job.job_type, JobType::Service | JobType::Batch);
    if !counts || job.stop || changed_since {
        return Ok(());
    }
    for group in &job.task_groups {
        // Whether a canary counts is decided by its promotion, which the plan may not know of.
        let deployment = after.latest_deployment(key);
        let asks = group.update.as_ref().is_some_and(|it| it.canary() > 0);
        if asks && deployment.is_some_and(|it| it.modify_index > plan.snapshot_index) {
            continue;
        }
        let allocs = after.allocs_by_job(key);
        let is_canary = |alloc: &Allocation| {
            let status = alloc.deployment_status.as_ref();
            status.is_some_and(|status| status.canary)
        };
        let live: Vec<&Allocation> = allocs
            .map(|alloc| &**alloc)
            .filter(|alloc| alloc.task_group == group.name && !alloc.terminal())
            .filter(|alloc| !is_canary(alloc))
            .collect();
        within(group, &live).map_err(|problem| format!("{}: {problem}", key.id))?;
    }
    Ok(())
}

fn within(group: &TaskGroup, live: &[&Allocation]) -> Result<(), String> {
    let count = group.count() as usize;
    // Which of a pair stays is decided by the next plan after a return.
    let (absent, present): (Vec<&Allocation>, Vec<&Allocation>) = live
        .iter()
        .partition(|it| it.client_status == ClientStatus::Unknown || it.needs_reconnect());
    if present.len() > count {
        return Err(format!("{} are there of {count}", present.len()));
    }
    let mut numbers: BTreeMap<Option<u32>, &Allocation> = BTreeMap::new();
    for alloc in &present {
        if let Some(twin) = numbers.insert(alloc.index(), alloc) {
            let (one, other) = (twin.id.short(), alloc.id.short());
            return Err(format!("{one} and {other} both are {}", alloc.name));
        }
    }
    let waits = !group.replaces_on_disconnect() || group.lease_wait().is_some();
    if waits {
        numbers.extend(absent.iter().map(|alloc| (alloc.index(), *alloc)));
        if numbers.len() > count {
            return Err(format!(
                "{} are there or waited for, of {count}",
                numbers.len()
            ));
        }
    }
    Ok(())
}
