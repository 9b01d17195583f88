//! A large plan in pieces, so that each fits into a log entry and none holds readers up for long.
//!
//! ```text
//!   plan --> [deployment, nodes a..k] --> [nodes l..s] --> ... --> [nodes t..z, evaluations]
//! ```
//!
//! Each piece holds everything that the plan does on its nodes, so that what makes room and what
//! takes it stay together, and each is valid by itself. The evaluation ends with the last piece
//! only: where the leader is lost in between, the next one finds it open and schedules what is
//! missing.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::Snapshot;
use controlplane_state::command::PlanApply;
use protocol_model::{AllocId, NodeId};

/// Splits a plan into pieces of about `items_max` placements and changes each; at least one. A node
/// with more than that is split too: what makes room comes before what takes it.
pub fn split(snapshot: &Snapshot, mut plan: PlanApply, items_max: usize) -> Vec<PlanApply> {
    if items(&plan) <= items_max {
        return vec![plan];
    }
    let items_max = items_max.max(1);
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
    let parts = by_node(snapshot, plan, &empty).into_values();
    let parts = parts.flat_map(|one| {
        if items(&one) > items_max {
            chop(one, items_max)
        } else {
            vec![one]
        }
    });
    for one in parts {
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

/// What a plan does, by node. What is on no node that is known belongs to nothing else: it comes
/// first.
fn by_node(
    snapshot: &Snapshot,
    plan: PlanApply,
    empty: &PlanApply,
) -> BTreeMap<Option<NodeId>, PlanApply> {
    // Who goes because of a placement goes with it, wherever it is.
    let mut goes_with: BTreeMap<AllocId, NodeId> = BTreeMap::new();
    let mut node_of: BTreeMap<AllocId, NodeId> = BTreeMap::new();
    for alloc in &plan.placed {
        node_of.insert(alloc.id, alloc.node_id);
        if let Some(replaced) = alloc.previous_allocation {
            goes_with.entry(replaced).or_insert(alloc.node_id);
        }
    }
    let home = |id: AllocId| {
        let known = snapshot.alloc(id).map(|alloc| alloc.node_id);
        goes_with.get(&id).copied().or(known)
    };
    let mut parts = BTreeMap::new();
    for alloc in plan.placed {
        let node = Some(alloc.node_id);
        part_of(&mut parts, node, empty).placed.push(alloc);
    }
    for alloc in plan.updated {
        let node = Some(alloc.node_id);
        part_of(&mut parts, node, empty).updated.push(alloc);
    }
    for one in plan.preempted {
        let node = node_of.get(&one.by).copied();
        part_of(&mut parts, node, empty).preempted.push(one);
    }
    for change in plan.changed {
        let node = home(change.id);
        part_of(&mut parts, node, empty).changed.push(change);
    }
    parts
}

/// What the plan does on one node, made where it is missing.
fn part_of<'a>(
    parts: &'a mut BTreeMap<Option<NodeId>, PlanApply>,
    node: Option<NodeId>,
    empty: &PlanApply,
) -> &'a mut PlanApply {
    parts.entry(node).or_insert_with(|| empty.clone())
}

/// How many placements and changes a plan has.
pub fn items(plan: &PlanApply) -> usize {
    plan.placed.len() + plan.updated.len() + plan.changed.len() + plan.preempted.len()
}

/// One node's part in chunks: first what makes room, then what takes it.
fn chop(one: PlanApply, items_max: usize) -> Vec<PlanApply> {
    let PlanApply {
        eval_id,
        snapshot_index,
        placed,
        updated,
        changed,
        preempted,
        ..
    } = one;
    let empty = PlanApply {
        eval_id,
        snapshot_index,
        ..PlanApply::default()
    };
    let mut chunks = Vec::new();
    for part in changed.chunks(items_max) {
        let mut chunk = empty.clone();
        chunk.changed = part.to_vec();
        chunks.push(chunk);
    }
    for part in updated.chunks(items_max) {
        let mut chunk = empty.clone();
        chunk.updated = part.to_vec();
        chunks.push(chunk);
    }
    for part in placed.chunks(items_max) {
        let ids: BTreeSet<AllocId> = part.iter().map(|alloc| alloc.id).collect();
        let mut chunk = empty.clone();
        chunk.placed = part.to_vec();
        let goes = preempted.iter().filter(|one| ids.contains(&one.by));
        chunk.preempted = goes.cloned().collect();
        chunks.push(chunk);
    }
    chunks
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

    use controlplane_state::State;
    use controlplane_state::command::Preempted;
    use hack_testkit::allocs;
    use protocol_model::{EvalId, EvalTrigger, Evaluation, JobKey, JobType, UnixNanos};

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
        let snapshot = State::new().snapshot();
        let small = plan(2, 5);
        assert_eq!(split(&snapshot, small.clone(), 10), [small]);
    }

    #[test]
    fn nodes_stay_whole_and_the_evaluation_ends_last() {
        let snapshot = State::new().snapshot();
        let pieces = split(&snapshot, plan(7, 4), 10);
        assert_eq!(placed(&pieces), 28);
        assert_eq!(pieces.len(), 4);
        let mut seen = BTreeSet::new();
        for piece in &pieces {
            assert!(items(piece) <= 10);
            assert_eq!(
                (piece.eval_id, piece.snapshot_index),
                (Some(EvalId::from_u128(1)), 7)
            );
            let nodes: BTreeSet<NodeId> = piece.placed.iter().map(|alloc| alloc.node_id).collect();
            assert!(seen.is_disjoint(&nodes), "a node is in two pieces");
            seen.extend(nodes);
        }
        let (last, before) = pieces.split_last().expect("pieces");
        assert_eq!(last.evals.len(), 1);
        assert!(before.iter().all(|piece| piece.evals.is_empty()));
    }

    #[test]
    fn a_crowded_node_is_split_and_who_is_preempted_goes_with_who_takes_the_place() {
        let snapshot = State::new().snapshot();
        let mut crowded = plan(1, 25);
        crowded.preempted = vec![Preempted {
            id: AllocId::from_u128(900),
            by: AllocId::from_u128(24),
        }];
        let pieces = split(&snapshot, crowded, 10);
        assert_eq!(placed(&pieces), 25);
        assert!(pieces.iter().all(|piece| items(piece) <= 11));
        let with = pieces.iter().find(|piece| !piece.preempted.is_empty());
        let by = AllocId::from_u128(24);
        assert!(with.is_some_and(|piece| piece.placed.iter().any(|alloc| alloc.id == by)));
    }
}
