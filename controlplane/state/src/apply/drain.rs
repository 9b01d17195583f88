//! Drains: an operator sets one, the leader moves allocations in turns, and the end is judged here.
//!
//! ```text
//!              NodeDrainSet(Some)            nothing left: NodeDrainComplete
//!   no drain ---------------------> draining ------------------------------> no drain, ineligible
//!                                    ^    |
//!                NodeDrainSet(Some) -+    +- NodeDrainSet(None) --> no drain, eligible if wanted
//!                (StartedAt stays)
//! ```

use std::collections::BTreeMap;

use protocol_model::{
    AllocId, Allocation, DrainSpec, DrainStatus, DrainStrategy, Eligibility, EvalTrigger, JobKey,
    LastDrain, Node, NodeId,
};

use super::draft::{AllocTouch, Draft};
use super::node_evals::WantedEvals;
use crate::applied::{Outcome, Refusal};
use crate::command::{DrainMark, DrainMarks, NodeDrainSet};
use crate::drain::Departure;

/// The subsystem of a drain's lines in a node's history.
const SUBSYSTEM: &str = "Drain";

impl Draft {
    pub(crate) fn node_drain_set(&mut self, set: &NodeDrainSet) -> Result<Outcome, Refusal> {
        let Some(record) = self.tables.node(set.node) else {
            return Err(Refusal::UnknownNode(set.node));
        };
        match (set.drain, record.node.drain) {
            (Some(spec), _) => Ok(self.drain_node(set, spec)),
            (None, true) => Ok(self.end_drain(set)),
            // It is over already, completed perhaps while the operator ended it.
            (None, false) if set.eligibility_after == Eligibility::Eligible => {
                self.node_eligibility(set.node, Eligibility::Eligible)
            }
            (None, false) => Ok(Outcome::NoOp),
        }
    }

    fn drain_node(&mut self, set: &NodeDrainSet, spec: DrainSpec) -> Outcome {
        let (now, index) = (self.now, self.index);
        let drains = |node: &Node| node.drain;
        let message = match self.tables.node(set.node).map(|it| drains(&it.node)) {
            Some(true) => "Node drain strategy updated",
            Some(false) | None => "Node drain strategy set",
        };
        let event = self.history(SUBSYSTEM, message);
        let evals = self.switch_node(set.node, event, |record, node| {
            let started_at = node.drain_strategy.map_or(now, |it| it.started_at);
            if !node.drain {
                node.last_drain = None;
            }
            node.set_drain(Some(DrainStrategy::new(spec, started_at, now)));
            node.scheduling_eligibility = Eligibility::Ineligible;
            let last = node.last_drain.get_or_insert_with(|| LastDrain {
                started_at,
                ..LastDrain::default()
            });
            last.updated_at = now;
            note_caller(last, set);
            record.drain_index = index;
        });
        Outcome::Evaluated(evals)
    }

    fn end_drain(&mut self, set: &NodeDrainSet) -> Outcome {
        let (now, index) = (self.now, self.index);
        let event = self.history(SUBSYSTEM, "Node drain disabled");
        let evals = self.switch_node(set.node, event, |record, node| {
            node.set_drain(None);
            node.scheduling_eligibility = set.eligibility_after;
            if let Some(last) = &mut node.last_drain {
                last.status = DrainStatus::Canceled;
                last.updated_at = now;
                note_caller(last, set);
            }
            record.drain_index = index;
        });
        Outcome::Evaluated(evals)
    }

    /// Nothing is left that had to leave: judged once more, since something may have come back to
    /// the node, or the drain may be another one.
    pub(crate) fn node_drain_complete(
        &mut self,
        id: NodeId,
        drain_index: u64,
    ) -> Result<Outcome, Refusal> {
        let Some(record) = self.tables.node(id) else {
            return Err(Refusal::UnknownNode(id));
        };
        if record.drain_index != drain_index || !self.tables.drain_is_over(record) {
            return Err(Refusal::DrainNotOver(id));
        }
        let (now, index) = (self.now, self.index);
        let strategy = record.node.drain_strategy;
        let mut event = self.history(SUBSYSTEM, "Node drain complete");
        if strategy.is_some_and(|strategy| strategy.is_overdue(now)) {
            let (name, value) = ("deadline_reached".to_owned(), "true".to_owned());
            event.details.insert(name, value);
        }
        let evals = self.switch_node(id, event, |record, node| {
            node.set_drain(None);
            if let Some(last) = &mut node.last_drain {
                last.status = DrainStatus::Complete;
                last.updated_at = now;
            }
            record.drain_index = index;
        });
        Ok(Outcome::Evaluated(evals))
    }

    /// Marks allocations for the scheduler, with one evaluation per job.
    pub(crate) fn allocs_migrate(&mut self, nodes: &[DrainMarks]) -> Outcome {
        let mut turns = Turns::default();
        let mut wanted = WantedEvals::default();
        for DrainMarks {
            node,
            drain_index,
            marks,
        } in nodes
        {
            let Some(record) = self.tables.node(*node) else {
                continue;
            };
            let Some(strategy) = record
                .node
                .drain_strategy
                .filter(|_| record.drain_index == *drain_index)
            else {
                continue;
            };
            for (id, mark) in marks {
                if let Some(alloc) = self.may_be_marked(*node, *id, *mark, strategy, &mut turns) {
                    wanted.want(alloc.job_key(), EvalTrigger::NodeDrain, *node);
                    self.put_alloc(alloc, AllocTouch::Known);
                }
            }
        }
        let evals = self.put_wanted_evals(wanted);
        if evals.is_empty() {
            Outcome::NoOp
        } else {
            Outcome::Evaluated(evals)
        }
    }

    /// The allocation with its mark, where that holds in this very state.
    fn may_be_marked(
        &self,
        node: NodeId,
        id: AllocId,
        mark: DrainMark,
        strategy: DrainStrategy,
        turns: &mut Turns,
    ) -> Option<Allocation> {
        let alloc = self.tables.alloc(id).filter(|it| it.node_id == node)?;
        if self.tables.drain_mark(alloc, strategy, self.now) != Some(mark) {
            return None;
        }
        let in_turn = self.tables.departure(alloc, strategy) == Departure::InTurn;
        if in_turn && mark == DrainMark::Migrate && !turns.take(&self.tables, alloc) {
            return None;
        }
        let mut alloc = Allocation::clone(alloc);
        let transition = &mut alloc.desired_transition;
        transition.migrate = Some(true);
        match mark {
            DrainMark::Migrate => {}
            DrainMark::End => transition.migrate_disable_placement = Some(true),
            DrainMark::ForceStop => transition.force_stop = Some(true),
        }
        Some(alloc)
    }
}

/// How many of each group may still leave: see [`Tables::drain_turns`](crate::Tables).
#[derive(Debug, Default)]
struct Turns(BTreeMap<(JobKey, String), u32>);

impl Turns {
    fn take(&mut self, tables: &crate::tables::Tables, alloc: &Allocation) -> bool {
        let key = (alloc.job_key(), alloc.task_group.clone());
        let left = self.0.entry(key);
        let left = left.or_insert_with_key(|(job, group)| tables.drain_turns(job, group));
        let free = *left > 0;
        *left = left.saturating_sub(1);
        free
    }
}

fn note_caller(last: &mut LastDrain, set: &NodeDrainSet) {
    if !set.accessor_id.is_empty() {
        last.accessor_id.clone_from(&set.accessor_id);
    }
    if let Some(meta) = &set.meta {
        last.meta.clone_from(meta);
    }
}
