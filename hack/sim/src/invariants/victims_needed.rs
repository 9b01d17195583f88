//! A plan evicts allocations of clearly lower priority, none that could be left out, and asks the
//! scheduler in the same entry to look at their jobs.

use std::collections::BTreeSet;

use controlplane_state::command::{Change, PlanApply, Preempted};
use controlplane_state::{Command, Outcome, Snapshot, Usage};
use protocol_model::{AllocId, Allocation, DesiredStatus, EvalId, NodeId};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::world::World;

/// By how much the priority of the evicted is lower, at least.
const PRIORITY_DELTA: i32 = 10;

/// Other plans in the leader's hands: their room counts as taken before the state shows it.
#[derive(Debug, Default)]
pub(super) struct VictimsNeeded {
    /// Evaluations of which a part of the plan is in the log, and more may come.
    open: BTreeSet<EvalId>,
    /// The newest entry with a plan that was refused.
    refused_at: u64,
}

impl Invariant for VictimsNeeded {
    fn name(&self) -> &'static str {
        "victims_needed"
    }

    fn source(&self) -> &'static str {
        "operations, Preemption: lower by 10, no victim in vain, their jobs are looked at"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &World) -> Result<(), String> {
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
            self.refused_at = applied.index;
            return Ok(());
        }
        for victim in &plan.preempted {
            is_less_important(before, plan, *victim)?;
            says_why(before, after, *victim)?;
        }
        let named = plan.preempted.iter().map(|victim| victim.id);
        let awaited = plan.placed.iter().flat_map(|it| &it.preempted_allocations);
        let ended: BTreeSet<AllocId> = named.chain(awaited.copied()).collect();
        for id in ended {
            is_looked_after(before, after, id, applied.index)?;
        }
        let nodes = plan.preempted.iter();
        let nodes = nodes.filter_map(|victim| Some(before.alloc(victim.id)?.node_id));
        let nodes: BTreeSet<NodeId> = nodes.collect();
        let is_open = |id: &EvalId| {
            let eval = before.eval(*id);
            eval.is_some_and(|eval| !eval.status.is_terminal())
        };
        self.open.retain(is_open);
        self.open.extend(plan.eval_id);
        if self.open.len() > 1 || self.refused_at > plan.snapshot_index {
            return Ok(());
        }
        nodes
            .iter()
            .try_for_each(|node| none_in_vain(before, plan, *node))
    }
}

fn is_less_important(before: &Snapshot, plan: &PlanApply, one: Preempted) -> Result<(), String> {
    let short = one.id.short();
    let Some(by) = plan.placed.iter().find(|alloc| alloc.id == one.by) else {
        return Err(format!("{short} is evicted for one that is not placed"));
    };
    let Some(victim) = before.alloc(one.id) else {
        return Ok(());
    };
    if victim.node_id != by.node_id {
        return Err(format!("{short} is evicted for one on another node"));
    }
    let priority = |alloc: &Allocation| before.spec(alloc.spec).map(|job| job.priority);
    match (priority(victim), priority(by)) {
        (Some(low), Some(high)) if low > high - PRIORITY_DELTA => Err(format!(
            "{short} of priority {low} is evicted for one of {high}"
        )),
        _ => Ok(()),
    }
}

/// Whether a victim that this very entry ends names the allocation that it has to go for.
fn says_why(before: &Snapshot, after: &Snapshot, one: Preempted) -> Result<(), String> {
    let lived = before.alloc(one.id).is_some_and(|alloc| !alloc.terminal());
    let Some(victim) = after.alloc(one.id).filter(|_| lived) else {
        return Ok(());
    };
    let named = victim.preempted_by_allocation == Some(one.by);
    if named && victim.desired_status == DesiredStatus::Evict {
        return Ok(());
    }
    Err(format!(
        "{} is evicted for {} and says {:?}",
        one.id.short(),
        one.by.short(),
        victim.desired_status
    ))
}

/// Whether somebody is asked to look at the job of one that this very entry ends.
fn is_looked_after(
    before: &Snapshot,
    after: &Snapshot,
    id: AllocId,
    index: u64,
) -> Result<(), String> {
    let lived = before.alloc(id).is_some_and(|alloc| !alloc.terminal());
    let Some(victim) = after.alloc(id).filter(|alloc| lived && alloc.terminal()) else {
        return Ok(());
    };
    let mut evals = after.evals_by_job(&victim.job_key());
    match evals.any(|eval| eval.create_index == index) {
        true => Ok(()),
        false => Err(format!(
            "{} is evicted, and nobody will look at {}",
            id.short(),
            victim.job_id
        )),
    }
}

/// Memory is the only thing that jobs of these runs lack. Judged where nothing on the node changed
/// since the plan's snapshot.
fn none_in_vain(before: &Snapshot, plan: &PlanApply, node: NodeId) -> Result<(), String> {
    let on_node = || before.allocs_on_node(node);
    if on_node().any(|alloc| alloc.modify_index > plan.snapshot_index) {
        return Ok(());
    }
    let Some(record) = before.node(node) else {
        return Ok(());
    };
    let room = record.node.node_resources.memory.memory_mb;
    let evicted = |alloc: &Allocation| plan.preempted.iter().any(|it| it.id == alloc.id);
    let stopped = |alloc: &Allocation| {
        let mut changed = plan.changed.iter();
        changed.any(|it| it.id == alloc.id && matches!(it.change, Change::Stop { .. }))
    };
    let stays = on_node().filter(|it| it.holds_room() && !evicted(it) && !stopped(it));
    let placed = plan.placed.iter().filter(|it| it.node_id == node);
    let used: i64 = stays.chain(placed).map(|it| memory_mb(it)).sum();
    let victims = on_node().filter(|it| evicted(it) && !it.terminal());
    for victim in victims {
        if used + memory_mb(victim) <= room {
            return Err(format!(
                "{} is evicted from n{} in vain: {used} of {room} MB are used without it",
                victim.id.short(),
                node_ix(node)
            ));
        }
    }
    Ok(())
}

fn memory_mb(alloc: &Allocation) -> i64 {
    Usage::of(&alloc.allocated_resources).memory_mb
}
