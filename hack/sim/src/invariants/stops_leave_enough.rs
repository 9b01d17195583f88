//! What the scheduler stops although its node is well and its job unchanged, it stops because there
//! are enough others: a job never ends with none because both of a pair were stopped.

use std::sync::Arc;

use controlplane_state::command::{Change, PlanApply};
use controlplane_state::{Command, Outcome, Snapshot};
use protocol_model::{AllocId, Allocation, ClientStatus, DesiredStatus, JobType, NodeStatus};

use super::{Invariant, Observation};
use crate::schedule::jobs::Kind;
use crate::world::World;

#[derive(Debug)]
pub(super) struct StopsLeaveEnough;

impl Invariant for StopsLeaveEnough {
    fn name(&self) -> &'static str {
        "stops_leave_enough"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: a job never ends with none"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Applied {
            before,
            after,
            command: Command::PlanApply(plan),
            applied,
        } = *seen
        else {
            return Ok(());
        };
        if applied.outcome != Outcome::PlanApplied {
            return Ok(());
        }
        let stopped = plan.changed.iter().filter(|it| stops(plan, it.id));
        for alloc in stopped.filter_map(|change| before.alloc(change.id)) {
            if must_be_spared(before, alloc) && !has_twin(after, plan, alloc) {
                leaves_enough(after, plan, alloc, world)?;
            }
        }
        Ok(())
    }
}

/// Whether nothing speaks against it: its node is well, its job is what it was, and nobody asked
/// for this very one to be stopped.
fn must_be_spared(before: &Snapshot, alloc: &Allocation) -> bool {
    let well = before
        .node(alloc.node_id)
        .is_some_and(|record| record.node.status == NodeStatus::Ready && !record.node.drain);
    let unchanged = before.job(&alloc.job_key()).is_some_and(|job| {
        job.version == alloc.job_version
            && job.create_index == alloc.job_create_index
            && !job.stop
            && job.job_type == JobType::Service
    });
    // A canary goes with its trial, however many of the older version are missing.
    let status = alloc.deployment_status.as_ref();
    let canary = status.is_some_and(|status| status.canary);
    well && unchanged && !canary && alloc.client_status == ClientStatus::Running && !migrates(alloc)
}

/// Of two with one number one goes, however few there are: a rollout that failed fills no other
/// places. The other one may have ended after the plan's snapshot.
fn has_twin(after: &Snapshot, plan: &PlanApply, alloc: &Allocation) -> bool {
    after.allocs_by_job(&alloc.job_key()).any(|it| {
        let was_there = it.modify_index > plan.snapshot_index && !it.server_terminal();
        it.id != alloc.id
            && it.index() == alloc.index()
            && it.client_status != ClientStatus::Unknown
            && (was_there || !it.terminal())
    })
}

fn leaves_enough(
    after: &Snapshot,
    plan: &PlanApply,
    alloc: &Allocation,
    world: &World,
) -> Result<(), String> {
    let job = after.job(&alloc.job_key());
    let group = job.and_then(|job| job.task_group(&alloc.task_group));
    let wanted = group.map_or(0, |it| it.count());
    let stays = |it: &&Arc<Allocation>| {
        // What ended after the plan's snapshot was there when it was decided, and what its node
        // turned out not to have any more was wanted then.
        let since = it.modify_index > plan.snapshot_index;
        // Of a leased group one ends first, and is followed then: its node may have been drained
        // when that was decided, and not be any more. What this very plan stops for another reason
        // is followed by nobody.
        let ends_first =
            world.kind_of(it.id) == Some(Kind::Leased) && (migrates(it) || !stops(plan, it.id));
        let wanted = it.desired_status == DesiredStatus::Run
            || since && it.client_status == ClientStatus::Lost
            || ends_first;
        wanted && (since || !it.client_terminal())
    };
    let left = after.allocs_by_job(&alloc.job_key()).filter(stays).count();
    if left < wanted as usize {
        return Err(format!(
            "{} is stopped and {left} of {wanted} are left",
            alloc.id.short()
        ));
    }
    Ok(())
}

/// Whether somebody wanted it to go elsewhere.
fn migrates(alloc: &Allocation) -> bool {
    alloc.desired_transition.migrate == Some(true)
}

fn stops(plan: &PlanApply, id: AllocId) -> bool {
    let mut changed = plan.changed.iter();
    changed.any(|it| it.id == id && matches!(it.change, Change::Stop { .. }))
}
