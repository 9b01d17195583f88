//! Plans in flight: they are being committed, and the state does not show all of them yet.
//!
//! A plan is committed in pieces, one after the other, and each is applied whole or not at all: one
//! of its placements shows whether a snapshot has it. Decisions that are made meanwhile are given
//! what the remaining pieces will take of each node.

use std::collections::{BTreeMap, VecDeque};

use controlplane_state::command::PlanApply;
use controlplane_state::{Snapshot, Usage};
use protocol_model::{AllocId, EvalId, NodeId};

/// See the top of this file.
#[derive(Debug, Default)]
pub struct PlansInFlight {
    /// The pieces that the state does not show yet, in the order in which it will.
    plans: BTreeMap<EvalId, VecDeque<Piece>>,
    /// What all of those take together.
    planned: BTreeMap<NodeId, Usage>,
}

#[derive(Debug)]
struct Piece {
    /// Its last placement: where the piece is too large for the log it is halved, and this one is
    /// in the second half.
    last: AllocId,
    takes: BTreeMap<NodeId, Usage>,
}

impl PlansInFlight {
    /// A plan of `eval` is being committed, in these pieces.
    pub fn begin(&mut self, eval: EvalId, pieces: &[PlanApply]) {
        self.end(eval);
        let pieces: VecDeque<Piece> = pieces.iter().filter_map(Piece::of).collect();
        for (node, usage) in pieces.iter().flat_map(|piece| &piece.takes) {
            self.planned.entry(*node).or_default().add(usage);
        }
        self.plans.insert(eval, pieces);
    }

    /// The state shows what became of the plan of `eval`.
    pub fn end(&mut self, eval: EvalId) {
        for piece in self.plans.remove(&eval).into_iter().flatten() {
            release(&mut self.planned, &piece);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// What plans will take of each node, beyond what `snapshot` shows. `snapshot` must not be
    /// older than that of the call before.
    pub fn planned(&mut self, snapshot: &Snapshot) -> BTreeMap<NodeId, Usage> {
        for pieces in self.plans.values_mut() {
            while let Some(piece) =
                pieces.pop_front_if(|piece| snapshot.alloc(piece.last).is_some())
            {
                release(&mut self.planned, &piece);
            }
        }
        self.planned.clone()
    }
}

/// `piece` is no longer planned.
fn release(planned: &mut BTreeMap<NodeId, Usage>, piece: &Piece) {
    for (node, usage) in &piece.takes {
        if let Some(total) = planned.get_mut(node) {
            total.subtract(usage);
            if *total == Usage::default() {
                planned.remove(node);
            }
        }
    }
}

impl Piece {
    /// `None` where it places nothing.
    fn of(plan: &PlanApply) -> Option<Self> {
        let last = plan.placed.last()?.id;
        let mut takes: BTreeMap<NodeId, Usage> = BTreeMap::new();
        for alloc in &plan.placed {
            let usage = Usage::of(&alloc.allocated_resources);
            takes.entry(alloc.node_id).or_default().add(&usage);
        }
        Some(Self { last, takes })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controlplane_state::Command;
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{AllocatedTaskResources, JobType};

    use super::*;

    #[test]
    fn a_piece_counts_until_the_state_has_it_or_its_plan_is_over() {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let eval = world.register(jobs::job(JobType::Service, "web", 6));
        let mut alloc = allocs::allocation(&world.snapshot(), &eval.job_key(), node);
        let mut task = AllocatedTaskResources::default();
        task.cpu.cpu_shares = 100;
        let tasks = &mut Arc::make_mut(&mut alloc.allocated_resources).tasks;
        tasks.insert("task".to_owned(), task);
        let place = |number: u128| {
            let id = AllocId::from_u128(number);
            Arc::new(protocol_model::Allocation {
                id,
                ..alloc.clone()
            })
        };
        let piece = |numbers: [u128; 2]| PlanApply {
            placed: numbers.map(place).to_vec(),
            ..PlanApply::default()
        };
        let pieces = [piece([1, 2]), PlanApply::default(), piece([3, 4])];
        let mut plans = PlansInFlight::default();
        assert!(plans.planned(&world.snapshot()).is_empty());
        plans.begin(eval.id, &pieces);
        let other = EvalId::from_u128(9);
        plans.begin(other, &[piece([5, 6])]);
        let cpu = |plans: &mut PlansInFlight, world: &World| {
            let planned = plans.planned(&world.snapshot());
            planned.get(&node).map(|usage| usage.cpu)
        };
        assert_eq!(cpu(&mut plans, &world), Some(600));
        world.expect(Command::PlanApply(Box::new(pieces[0].clone())));
        assert_eq!(cpu(&mut plans, &world), Some(400));
        plans.end(other);
        assert_eq!(cpu(&mut plans, &world), Some(200));
        world.expect(Command::PlanApply(Box::new(pieces[2].clone())));
        assert_eq!(cpu(&mut plans, &world), None);
        assert!(!plans.is_empty());
        plans.end(eval.id);
        assert!(plans.is_empty());
    }
}
