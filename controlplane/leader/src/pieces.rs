//! A large plan in pieces, so that each fits into a log entry and none holds readers up for long.
//!
//! ```text
//!   plan --> [deployment, leaving, updates, a, b] --> [c, d, e] --> ... --> [y, z, evaluations]
//! ```
//!
//! A plan is cut where it was decided: placements stay in their order, each with what it takes the
//! place of and whom it preempts, and what leaves whatever happens comes before all of them. The
//! scheduler found each placement its room with nothing else taken or given yet, so that every
//! piece holds when those before it are in the log, whatever node made room for which. Where
//! nothing makes room for anything they go node by node instead: whoever gets ten allocations is
//! told once, and answers once. The evaluation ends with the last piece only: where the leader is
//! lost in between, the next one finds it open and schedules what is missing.

use std::collections::BTreeMap;

use controlplane_state::command::{AllocChange, Change, PlanApply, Preempted};
use protocol_model::AllocId;

/// Splits a plan into pieces of about `items_max` placements and changes each; at least one. What
/// belongs to one placement is never split.
pub fn split(mut plan: PlanApply, items_max: usize) -> Vec<PlanApply> {
    if items(&plan) <= items_max {
        return vec![plan];
    }
    let empty = PlanApply {
        eval_id: plan.eval_id,
        snapshot_index: plan.snapshot_index,
        ..PlanApply::default()
    };
    let mut pieces = vec![PlanApply {
        deployment: plan.deployment.take(),
        deployment_changes: std::mem::take(&mut plan.deployment_changes),
        ..empty.clone()
    }];
    let evals = std::mem::take(&mut plan.evals);
    for one in in_order(plan, &empty) {
        let full = pieces.last().is_none_or(|last| {
            let count = items(last);
            count > 0 && count + items(&one) > items_max
        });
        if full {
            pieces.push(empty.clone());
        }
        if let Some(last) = pieces.last_mut() {
            append(last, one);
        }
    }
    if let Some(last) = pieces.last_mut() {
        last.evals = evals;
    }
    pieces
}

/// The parts of a plan that must not be split, in the order in which they hold.
fn in_order<'p>(
    plan: PlanApply,
    empty: &'p PlanApply,
) -> impl Iterator<Item = PlanApply> + use<'p> {
    let (mut stops, first) = with_successors(&plan);
    let mut preempted: BTreeMap<AllocId, Vec<Preempted>> = BTreeMap::new();
    for one in plan.preempted {
        preempted.entry(one.by).or_default().push(one);
    }
    let changed = first.into_iter().map(|change| PlanApply {
        changed: vec![change],
        ..empty.clone()
    });
    let updated = plan.updated.into_iter().map(|alloc| PlanApply {
        updated: vec![alloc],
        ..empty.clone()
    });
    let mut placements = plan.placed;
    if stops.is_empty() && preempted.is_empty() {
        placements.sort_by_key(|alloc| alloc.node_id);
    }
    let placed = placements.into_iter().map(move |alloc| {
        let replaced = alloc.previous_allocation.and_then(|id| stops.remove(&id));
        PlanApply {
            preempted: preempted.remove(&alloc.id).unwrap_or_default(),
            changed: replaced.into_iter().collect(),
            placed: vec![alloc],
            ..empty.clone()
        }
    });
    changed.chain(updated).chain(placed)
}

/// The stops of what is replaced, which go with the placement that takes its place, and all other
/// changes. What is lost leaves whatever happens.
fn with_successors(plan: &PlanApply) -> (BTreeMap<AllocId, AllocChange>, Vec<AllocChange>) {
    let replaced = plan.placed.iter().filter_map(|it| it.previous_allocation);
    let replaced: std::collections::BTreeSet<AllocId> = replaced.collect();
    let mut stops = BTreeMap::new();
    let mut others = Vec::new();
    for change in &plan.changed {
        let makes_way = matches!(
            change.change,
            Change::Stop {
                client_status: None,
                ..
            }
        );
        if makes_way && replaced.contains(&change.id) {
            stops.insert(change.id, change.clone());
        } else {
            others.push(change.clone());
        }
    }
    (stops, others)
}

/// How many placements and changes a plan has.
pub fn items(plan: &PlanApply) -> usize {
    plan.placed.len() + plan.updated.len() + plan.changed.len() + plan.preempted.len()
}

fn append(piece: &mut PlanApply, one: PlanApply) {
    piece.placed.extend(one.placed);
    piece.updated.extend(one.updated);
    piece.changed.extend(one.changed);
    piece.preempted.extend(one.preempted);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controlplane_state::{Command, Outcome};
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{
        Allocation, EvalId, EvalTrigger, Evaluation, JobKey, JobType, NodeId, UnixNanos,
    };

    use super::*;

    fn eval() -> Evaluation {
        let key = JobKey::new("default", "web");
        Evaluation::new(
            EvalId::from_u128(1),
            &key,
            JobType::Service,
            50,
            EvalTrigger::JobRegister,
            UnixNanos(1),
        )
    }

    /// So many placements on each of so many nodes.
    fn plan(nodes: u128, each: u128) -> PlanApply {
        let placed = (0..nodes * each)
            .map(|number| {
                (
                    AllocId::from_u128(number),
                    NodeId::from_u128(number % nodes),
                )
            })
            .map(|(id, node)| Arc::new(allocs::bare(id, node)));
        PlanApply {
            eval_id: Some(EvalId::from_u128(1)),
            snapshot_index: 7,
            placed: placed.collect(),
            evals: vec![eval()],
            ..PlanApply::default()
        }
    }

    fn placed(pieces: &[PlanApply]) -> usize {
        pieces.iter().map(|piece| piece.placed.len()).sum()
    }

    #[test]
    fn a_plan_that_fits_is_left_as_it_is() {
        let small = plan(2, 5);
        assert_eq!(split(small.clone(), 10), [small]);
    }

    #[test]
    fn placements_go_node_by_node_and_the_evaluation_ends_last() {
        let mut whole = plan(7, 4);
        let pieces = split(whole.clone(), 10);
        assert_eq!(pieces.len(), 3);
        for piece in &pieces {
            assert!(items(piece) <= 10);
            assert_eq!(
                (piece.eval_id, piece.snapshot_index),
                (Some(EvalId::from_u128(1)), 7)
            );
        }
        // Those of one node stay in their order.
        whole.placed.sort_by_key(|alloc| alloc.node_id);
        let order = pieces.iter().flat_map(|piece| &piece.placed);
        assert!(order.eq(&whole.placed));
        let (last, before) = pieces.split_last().expect("pieces");
        assert_eq!(last.evals.len(), 1);
        assert!(before.iter().all(|piece| piece.evals.is_empty()));
    }

    #[test]
    fn who_is_preempted_goes_with_who_takes_the_place() {
        let mut crowded = plan(5, 5);
        crowded.preempted = vec![Preempted {
            id: AllocId::from_u128(900),
            by: AllocId::from_u128(24),
        }];
        let pieces = split(crowded, 10);
        assert_eq!(placed(&pieces), 25);
        assert!(pieces.iter().all(|piece| items(piece) <= 10));
        let order = pieces.iter().flat_map(|piece| &piece.placed);
        assert!(order.map(|alloc| alloc.id).is_sorted(), "as it was decided");
        let with = pieces.iter().find(|piece| !piece.preempted.is_empty());
        let by = AllocId::from_u128(24);
        assert!(with.is_some_and(|piece| piece.placed.iter().any(|alloc| alloc.id == by)));
    }

    fn stop(alloc: &Allocation) -> AllocChange {
        let change = Change::Stop {
            description: String::new(),
            client_status: None,
            followup_eval: None,
        };
        AllocChange {
            id: alloc.id,
            change,
        }
    }

    /// Everybody moves up to the node below, the first one to a node that is free: each needs the
    /// room that the one before it left.
    #[test]
    fn every_piece_holds_when_those_before_it_are_applied() {
        const NODES: u8 = 6;
        let mut world = World::new();
        let ids: Vec<NodeId> = (1..=NODES)
            .map(|number| world.add_node(nodes::node(number)))
            .collect();
        let eval = world.register(jobs::job(JobType::Service, "web", u32::from(NODES)));
        let sized = |world: &World, node: NodeId| {
            let mut alloc = allocs::allocation(&world.snapshot(), &eval.job_key(), node);
            let mut task = protocol_model::AllocatedTaskResources::default();
            task.cpu.cpu_shares = 3000;
            let tasks = &mut Arc::make_mut(&mut alloc.allocated_resources).tasks;
            tasks.insert("task".to_owned(), task);
            alloc
        };
        let place = |world: &mut World, alloc: &Allocation| {
            world.expect(Command::PlanApply(Box::new(PlanApply {
                placed: vec![Arc::new(alloc.clone())],
                ..PlanApply::default()
            })));
        };
        // The last node is free.
        let mut before = Vec::new();
        for node in ids.iter().take(usize::from(NODES) - 1) {
            let alloc = sized(&world, *node);
            place(&mut world, &alloc);
            before.push(alloc);
        }
        let mut whole = PlanApply {
            snapshot_index: world.snapshot().index(),
            ..PlanApply::default()
        };
        let steps = before.iter().zip(ids.iter().skip(1)).rev();
        for (number, (previous, node)) in (100u128..).zip(steps) {
            let mut alloc = sized(&world, *node);
            alloc.id = AllocId::from_u128(number);
            alloc.previous_allocation = Some(previous.id);
            whole.placed.push(Arc::new(alloc));
            whole.changed.push(stop(previous));
        }
        for piece in split(whole, 2) {
            let outcome = world.apply(Command::PlanApply(Box::new(piece))).outcome;
            assert_eq!(outcome, Outcome::PlanApplied);
        }
    }
}
