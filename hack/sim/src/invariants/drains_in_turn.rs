//! A drain asks no more of a service to leave before its deadline than leaves `count -
//! max_parallel` healthy ones, and system jobs when nothing else is left on the node.

use std::collections::BTreeSet;
use std::sync::Arc;

use controlplane_state::{Command, Snapshot};
use protocol_model::{AllocId, Allocation, ClientStatus, JobKey, JobType, NodeStatus};

use super::{Invariant, Observation};
use crate::schedule::jobs::{Kind, MOVES_AT_ONCE};
use crate::world::World;

#[derive(Debug)]
pub(super) struct DrainsInTurn;

impl Invariant for DrainsInTurn {
    fn name(&self) -> &'static str {
        "drains_in_turn"
    }

    fn source(&self) -> &'static str {
        "operations, Drain a node: max_parallel at a time, system jobs last"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Applied {
            before,
            after,
            command,
            ..
        } = *seen
        else {
            return Ok(());
        };
        // Elsewhere operators ask single allocations to leave, too.
        if !world.schedule.jobs.contains(&Kind::Movable) {
            return Ok(());
        }
        let mut jobs = BTreeSet::new();
        for alloc in newly_marked(command, before, after) {
            let job = before.job_of_alloc(&alloc);
            let is_system = job.is_some_and(|job| job.job_type == JobType::System);
            if is_system {
                is_last(before, &alloc)?;
            } else if world.kind_of(alloc.id) == Some(Kind::Movable)
                && serves(before, &alloc)
                && !is_overdue(after, &alloc)
            {
                jobs.insert(alloc.job_key());
            }
        }
        jobs.iter().try_for_each(|key| leaves_enough(after, key))
    }
}

/// The allocations that this entry asks to leave.
fn newly_marked(command: &Command, before: &Snapshot, after: &Snapshot) -> Vec<Arc<Allocation>> {
    let ids: Vec<AllocId> = match command {
        Command::AllocsMigrate { nodes } => {
            let marks = nodes.iter().flat_map(|it| &it.marks);
            marks.map(|(id, _)| *id).collect()
        }
        Command::AllocsStop { allocs, .. } => allocs.iter().map(|(id, _)| *id).collect(),
        _ => Vec::new(),
    };
    let asked = |snapshot: &Snapshot, id: AllocId| {
        let alloc = snapshot.alloc(id);
        alloc.is_some_and(|alloc| alloc.desired_transition.should_migrate())
    };
    let marked = ids.into_iter();
    let marked = marked.filter(|id| !asked(before, *id) && asked(after, *id));
    marked.filter_map(|id| before.alloc(id).cloned()).collect()
}

/// Whether its group relies on it: it is healthy, stays, and its node is heard.
fn serves(state: &Snapshot, alloc: &Allocation) -> bool {
    let health = alloc.deployment_status.as_ref().and_then(|it| it.healthy);
    let node = state.node(alloc.node_id);
    !alloc.terminal()
        && !alloc.desired_transition.should_migrate()
        && alloc.client_status == ClientStatus::Running
        && health == Some(true)
        && node.is_some_and(|record| record.node.status == NodeStatus::Ready)
}

fn is_overdue(after: &Snapshot, alloc: &Allocation) -> bool {
    let record = after.node(alloc.node_id);
    let strategy = record.and_then(|record| record.node.drain_strategy);
    strategy.is_some_and(|strategy| strategy.is_overdue(after.now()))
}

fn leaves_enough(after: &Snapshot, key: &JobKey) -> Result<(), String> {
    let Some(job) = after.job(key).filter(|job| !job.stop) else {
        return Ok(());
    };
    let wanted: u32 = job.task_groups.iter().map(|group| group.count()).sum();
    let healthy = after.allocs_by_job(key).filter(|it| serves(after, it));
    let healthy = healthy.count();
    let needed = wanted.saturating_sub(MOVES_AT_ONCE) as usize;
    if healthy < needed {
        return Err(format!(
            "a drain leaves {healthy} healthy ones of {key}, {needed} are needed"
        ));
    }
    Ok(())
}

/// Whether nothing but system jobs is left on its node.
fn is_last(before: &Snapshot, alloc: &Allocation) -> Result<(), String> {
    let mut on_node = before.allocs_on_node(alloc.node_id);
    let other = on_node.find(|other| {
        let job = before.job_of_alloc(other);
        !other.client_terminal() && job.is_some_and(|job| job.job_type != JobType::System)
    });
    match other {
        None => Ok(()),
        Some(other) => Err(format!(
            "{} of a system job is asked to leave before {} of {}",
            alloc.id.short(),
            other.id.short(),
            other.job_id
        )),
    }
}
