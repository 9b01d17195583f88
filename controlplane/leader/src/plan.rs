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

/// Checks a plan against the newest state, and against what plans in flight will take of each node
/// (`planned`): the log refuses an entry whole where one of its nodes is overtaken.
pub fn check(
    snapshot: &Snapshot,
    planned: &BTreeMap<NodeId, Usage>,
    mut plan: PlanApply,
    commit: Commit,
) -> Checked {
    let mut rejected: BTreeMap<NodeId, NodeRejection> = BTreeMap::new();
    let mut suspects = plan.nodes();
    // Each round takes the placements of a node out, or is the last one.
    loop {
        let found = refusals(snapshot, planned, &plan, &suspects);
        if found.is_empty() {
            break;
        }
        let refused: BTreeSet<NodeId> = match commit {
            Commit::Partial => found.keys().copied().collect(),
            Commit::Whole => plan.nodes(),
        };
        for (node, reason) in found {
            rejected.entry(node).or_insert(reason);
        }
        let stays = without(&mut plan, &refused, snapshot);
        // What stays after all needs its room, which others may have counted on.
        let stays = stays.iter().filter_map(|id| snapshot.alloc(*id));
        suspects = stays.map(|alloc| alloc.node_id).collect();
    }
    let rejected = rejected.into_iter();
    let rejected = rejected.map(|(node, reason)| NodeRejected { node, reason });
    Checked {
        plan,
        rejected: rejected.collect(),
    }
}

/// Which of `suspects` refuse what the plan wants of them.
fn refusals(
    snapshot: &Snapshot,
    planned: &BTreeMap<NodeId, Usage>,
    plan: &PlanApply,
    suspects: &BTreeSet<NodeId>,
) -> BTreeMap<NodeId, NodeRejection> {
    let leaving = leaving(snapshot, plan);
    let mut by_node: BTreeMap<NodeId, Vec<&Arc<Allocation>>> = BTreeMap::new();
    for alloc in plan.placed.iter().chain(&plan.updated) {
        if suspects.contains(&alloc.node_id) {
            by_node.entry(alloc.node_id).or_default().push(alloc);
        }
    }
    by_node
        .iter()
        .filter_map(|(node, asks)| {
            let planned = planned.get(node);
            let reason = check_node(snapshot, planned, *node, asks, &leaving).err()?;
            Some((*node, reason))
        })
        .collect()
}

/// Allocations whose room is free for the plan: those that it stops, though they hold it for others
/// until they have ended, and those that it gives another shape.
fn leaving(snapshot: &Snapshot, plan: &PlanApply) -> BTreeSet<AllocId> {
    let stopped = plan.changed.iter().filter(|change| {
        matches!(change.change, Change::Stop { .. }) && snapshot.alloc(change.id).is_some()
    });
    // An update in place takes the old shape's room away and asks for the new one's.
    let reshaped = plan.updated.iter().filter(|it| !keeps_shape(snapshot, it));
    stopped
        .map(|change| change.id)
        .chain(plan.preempted.iter().map(|preempted| preempted.id))
        .chain(reshaped.map(|alloc| alloc.id))
        .collect()
}

/// Whether an update takes what the allocation has already: that is never refused, not even by a
/// node that has less by now than it gave away.
fn keeps_shape(snapshot: &Snapshot, ask: &Allocation) -> bool {
    let before = snapshot.alloc(ask.id);
    before.is_some_and(|before| before.allocated_resources == ask.allocated_resources)
}

fn check_node(
    snapshot: &Snapshot,
    planned: Option<&Usage>,
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
    if let Some(planned) = planned {
        used.add(planned);
    }
    for alloc in snapshot.allocs_on_node(node) {
        if leaving.contains(&alloc.id) && alloc.holds_room() {
            used.subtract(&Usage::of(&alloc.allocated_resources));
        }
    }
    for ask in asks.iter().filter(|ask| !keeps_shape(snapshot, ask)) {
        let ask = Usage::of(&ask.allocated_resources);
        fit::fits(&row.capacity, &used, &ask).map_err(NodeRejection::Exhausted)?;
        used.add(&ask);
    }
    Ok(())
}

/// Takes out what the plan wanted on `refused` nodes. A replaced allocation is stopped only
/// together with its replacement: where the placement falls, the stop of what it replaces falls
/// too. Answers who stays because of that.
fn without(
    plan: &mut PlanApply,
    refused: &BTreeSet<NodeId>,
    snapshot: &Snapshot,
) -> BTreeSet<AllocId> {
    let falls = |alloc: &Arc<Allocation>| refused.contains(&alloc.node_id);
    let fallen: Vec<Arc<Allocation>> = plan.placed.extract_if(.., |it| falls(it)).collect();
    let replaced: BTreeSet<AllocId> = fallen
        .iter()
        .filter_map(|alloc| alloc.previous_allocation)
        .collect();
    let fallen: BTreeSet<AllocId> = fallen.iter().map(|alloc| alloc.id).collect();
    plan.updated.retain(|alloc| !falls(alloc));
    let mut stays = BTreeSet::new();
    plan.preempted.retain(|preempted| {
        let falls = fallen.contains(&preempted.by);
        if falls {
            stays.insert(preempted.id);
        }
        !falls
    });
    plan.changed.retain(|change| {
        let gone = snapshot
            .alloc(change.id)
            .is_none_or(|alloc| alloc.terminal());
        let makes_way = matches!(
            change.change,
            Change::Stop {
                client_status: None,
                ..
            }
        );
        // One that failed falls with its successor, too: the next attempt begins at its record.
        let falls = replaced.contains(&change.id) && makes_way;
        if falls && !gone {
            stays.insert(change.id);
        }
        !falls
    });
    stays
}

#[cfg(test)]
mod tests {
    use controlplane_state::Command;
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{AllocatedTaskResources, ClientStatus, JobKey, JobType};

    use super::*;

    /// One more allocation of the job on `node`, which takes that much processor time.
    fn sized(world: &World, key: &JobKey, node: NodeId, cpu: i64) -> Allocation {
        let mut alloc = allocs::allocation(&world.snapshot(), key, node);
        let mut task = AllocatedTaskResources::default();
        task.cpu.cpu_shares = cpu;
        let tasks = &mut Arc::make_mut(&mut alloc.allocated_resources).tasks;
        tasks.insert("task".to_owned(), task);
        alloc
    }

    /// What is left of a plan where no other one is in flight.
    fn checked(world: &World, plan: &PlanApply) -> Checked {
        let none = BTreeMap::new();
        check(&world.snapshot(), &none, plan.clone(), Commit::Partial)
    }

    fn place(world: &mut World, alloc: &Allocation) {
        world.expect(Command::PlanApply(Box::new(PlanApply {
            placed: vec![Arc::new(alloc.clone())],
            ..PlanApply::default()
        })));
    }

    /// `previous` moves to `node`.
    fn moves(plan: &mut PlanApply, previous: &Allocation, node: NodeId, number: u128) {
        plan.placed.push(Arc::new(Allocation {
            id: AllocId::from_u128(number),
            node_id: node,
            previous_allocation: Some(previous.id),
            ..previous.clone()
        }));
        plan.changed.push(controlplane_state::command::AllocChange {
            id: previous.id,
            change: Change::Stop {
                description: String::new(),
                client_status: None,
                followup_eval: None,
            },
        });
    }

    #[test]
    fn what_counted_on_the_room_of_one_that_stays_falls_with_it() {
        let mut world = World::new();
        let ids: Vec<NodeId> = (1..=3)
            .map(|number| world.add_node(nodes::node(number)))
            .collect();
        let key = world
            .register(jobs::job(JobType::Service, "web", 3))
            .job_key();
        let first = sized(&world, &key, ids[0], 3000);
        place(&mut world, &first);
        let second = sized(&world, &key, ids[1], 3000);
        place(&mut world, &second);
        let mut plan = PlanApply::default();
        moves(&mut plan, &second, ids[2], 100);
        moves(&mut plan, &first, ids[1], 101);
        assert_eq!(checked(&world, &plan).rejected, []);
        // Somebody else was faster.
        let other = sized(&world, &key, ids[2], 3000);
        place(&mut world, &other);
        let left = checked(&world, &plan);
        let refused: Vec<NodeId> = left.rejected.iter().map(|it| it.node).collect();
        assert_eq!(refused, [ids[1], ids[2]]);
        assert!(left.plan.placed.is_empty() && left.plan.changed.is_empty());
        world.expect(Command::PlanApply(Box::new(left.plan)));
    }

    #[test]
    fn room_that_a_plan_in_flight_will_take_is_refused_on_its_node_alone() {
        let mut world = World::new();
        let [near, far] = [1, 2].map(|number| world.add_node(nodes::node(number)));
        let key = world
            .register(jobs::job(JobType::Service, "web", 2))
            .job_key();
        let asks = [near, far].map(|node| sized(&world, &key, node, 3000));
        let in_flight = Usage::of(&asks[0].allocated_resources);
        let plan = PlanApply {
            placed: asks.into_iter().map(Arc::new).collect(),
            ..PlanApply::default()
        };
        let planned = BTreeMap::from([(near, in_flight)]);
        let left = check(&world.snapshot(), &planned, plan, Commit::Partial);
        assert_eq!(left.rejected.len(), 1);
        let nodes: Vec<NodeId> = left.plan.placed.iter().map(|it| it.node_id).collect();
        assert_eq!(nodes, [far]);
    }

    #[test]
    fn what_another_plan_stops_is_free_once_it_has_ended() {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let key = world
            .register(jobs::job(JobType::Service, "web", 1))
            .job_key();
        let first = sized(&world, &key, node, 3000);
        place(&mut world, &first);
        let mut plan = PlanApply::default();
        moves(&mut plan, &first, node, 100);
        let own = checked(&world, &plan);
        assert_eq!(own.rejected, [], "free for the plan that stops it");
        let stop_alone = PlanApply {
            changed: std::mem::take(&mut plan.changed),
            ..PlanApply::default()
        };
        world.expect(Command::PlanApply(Box::new(stop_alone)));
        let other = checked(&world, &plan);
        assert_eq!(other.rejected.len(), 1, "not for another one");
        world.report(first.id, ClientStatus::Complete);
        let later = checked(&world, &plan);
        assert_eq!(later.rejected, []);
    }

    #[test]
    fn one_that_failed_is_not_stopped_without_its_successor() {
        let mut world = World::new();
        let ids: Vec<NodeId> = (1..=2)
            .map(|number| world.add_node(nodes::node(number)))
            .collect();
        let key = world
            .register(jobs::job(JobType::Service, "web", 1))
            .job_key();
        let failed = sized(&world, &key, ids[0], 3000);
        place(&mut world, &failed);
        world.report(failed.id, ClientStatus::Failed);
        let mut plan = PlanApply::default();
        moves(&mut plan, &failed, ids[1], 100);
        // Somebody else was faster.
        let other = sized(&world, &key, ids[1], 3000);
        place(&mut world, &other);
        let left = checked(&world, &plan);
        assert_eq!(left.rejected.len(), 1);
        assert!(left.plan.placed.is_empty() && left.plan.changed.is_empty());
    }

    #[test]
    fn an_update_in_place_is_not_asked_for_the_room_that_it_has() {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let key = world
            .register(jobs::job(JobType::Service, "web", 1))
            .job_key();
        let alloc = sized(&world, &key, node, 3000);
        place(&mut world, &alloc);
        // The host came back with less than before.
        let mut smaller = nodes::node(1);
        smaller.node_resources.cpu.cpu_shares = 2000;
        world.add_node(smaller);
        let plan = PlanApply {
            updated: vec![Arc::new(alloc)],
            ..PlanApply::default()
        };
        let left = checked(&world, &plan);
        assert_eq!(left.rejected, []);
        world.expect(Command::PlanApply(Box::new(left.plan)));
    }
}
