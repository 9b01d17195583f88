//! The plan check: a plan was computed on a snapshot, and the state went on. Whatever does not hold
//! on the newest state is taken out, node by node; the rest may be committed.
//!
//! Taking away never fails: stops always hold. A placement holds if its node may be placed on and
//! has room by the same [`fit`] function that the scheduler used, so a plan that is checked on its
//! own snapshot is never refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::command::{Change, PlanApply};
use controlplane_state::{NodeRejected, NodeRejection, Readiness, Snapshot, Usage, fit};
use protocol_model::{AllocId, Allocation, NodeId};

/// What is left of a plan, and what was taken out.
#[derive(Clone, PartialEq, Debug)]
pub struct Checked {
    /// The part that holds.
    pub plan: PlanApply,
    /// Nodes whose placements were taken out, and why. Empty = the plan holds whole.
    pub rejected: Vec<NodeRejected>,
}

/// Whether a plan may be committed in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// What holds is committed, the rest is refused.
    Partial,
    /// All or nothing (`all_at_once`).
    Whole,
}

/// Checks a plan against the newest state.
pub fn check(snapshot: &Snapshot, plan: PlanApply, commit: Commit) -> Checked {
    let leaving = leaving(snapshot, &plan);
    let mut by_node: BTreeMap<NodeId, Vec<&Arc<Allocation>>> = BTreeMap::new();
    for alloc in plan.placed.iter().chain(&plan.updated) {
        by_node.entry(alloc.node_id).or_default().push(alloc);
    }
    let rejected: Vec<NodeRejected> = by_node
        .iter()
        .filter_map(|(node, asks)| {
            let reason = check_node(snapshot, *node, asks, &leaving).err()?;
            Some(NodeRejected {
                node: *node,
                reason,
            })
        })
        .collect();
    if rejected.is_empty() {
        return Checked { plan, rejected };
    }
    let refused: BTreeSet<NodeId> = match commit {
        Commit::Partial => rejected.iter().map(|rejected| rejected.node).collect(),
        Commit::Whole => by_node.keys().copied().collect(),
    };
    Checked {
        plan: without(plan, &refused, snapshot),
        rejected,
    }
}

/// Allocations that no longer take room once the plan is applied.
fn leaving(snapshot: &Snapshot, plan: &PlanApply) -> BTreeSet<AllocId> {
    let stopped = plan.changed.iter().filter(|change| {
        matches!(change.change, Change::Stop { .. }) && snapshot.alloc(change.id).is_some()
    });
    stopped
        .map(|change| change.id)
        .chain(plan.preempted.iter().map(|preempted| preempted.id))
        // An update in place takes the old shape's room away and asks for the new one's.
        .chain(plan.updated.iter().map(|alloc| alloc.id))
        .collect()
}

fn check_node(
    snapshot: &Snapshot,
    node: NodeId,
    asks: &[&Arc<Allocation>],
    leaving: &BTreeSet<AllocId>,
) -> Result<(), NodeRejection> {
    let row = snapshot
        .node_columns()
        .row(node)
        .ok_or(NodeRejection::Unknown)?;
    let places_new = asks.iter().any(|ask| snapshot.alloc(ask.id).is_none());
    if places_new && row.readiness != Readiness::Ready {
        return Err(NodeRejection::NotReady);
    }
    let mut used = row.used.clone();
    for alloc in snapshot.allocs_on_node(node) {
        if leaving.contains(&alloc.id) && !alloc.terminal() {
            used.subtract(&Usage::of(&alloc.allocated_resources));
        }
    }
    for ask in asks {
        let ask = Usage::of(&ask.allocated_resources);
        fit::fits(&row.capacity, &used, &ask).map_err(NodeRejection::Exhausted)?;
        used.add(&ask);
    }
    Ok(())
}

/// The plan without what it wanted on `refused` nodes. A replaced allocation is stopped only
/// together with its replacement: where the placement falls, the stop of what it replaces falls
/// too.
fn without(mut plan: PlanApply, refused: &BTreeSet<NodeId>, snapshot: &Snapshot) -> PlanApply {
    let fallen: Vec<Arc<Allocation>> = plan
        .placed
        .iter()
        .filter(|alloc| refused.contains(&alloc.node_id))
        .cloned()
        .collect();
    let replaced: BTreeSet<AllocId> = fallen
        .iter()
        .filter_map(|alloc| alloc.previous_allocation)
        .collect();
    let fallen_ids: BTreeSet<AllocId> = fallen.iter().map(|alloc| alloc.id).collect();
    plan.placed
        .retain(|alloc| !refused.contains(&alloc.node_id));
    plan.updated
        .retain(|alloc| !refused.contains(&alloc.node_id));
    plan.preempted
        .retain(|preempted| !fallen_ids.contains(&preempted.by));
    plan.changed.retain(|change| {
        let gone = snapshot
            .alloc(change.id)
            .is_none_or(|alloc| alloc.terminal());
        gone || !replaced.contains(&change.id)
            || !matches!(
                change.change,
                Change::Stop {
                    client_status: None,
                    ..
                }
            )
    });
    plan
}
