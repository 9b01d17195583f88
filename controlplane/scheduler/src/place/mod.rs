//! Finding a node for each wanted placement: feasible, with room, and the best of those.
//!
//! `scope`: the job's nodes. `field`: what each of them is for the next placement, `heaps`: those
//! that fit. `overlay`: what the decision changed so far.

mod evicting;
mod field;
mod heaps;
mod overlay;
mod scope;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::{Capacity, Snapshot, Usage};
use protocol_model::{
    AllocId, AllocMetric, AllocatedResources, Allocation, EphemeralDisk, Job, Node, NodeId,
    TaskGroup,
};

use self::field::{Field, Verdict};
pub(crate) use self::overlay::Overlay;
use self::scope::{Candidate, candidates};
pub(crate) use self::scope::{in_datacenters, in_pool, in_scope};
use crate::ask::{self, Ask, Lack};
use crate::feasible::{Alike, Distinct, Feasibility, Ripple, Standing};
use crate::ids::Seeded;
use crate::memory;
use crate::rank::{Asked, Ranking};
use crate::reconcile::Wanted;
use crate::scratch::Scratch;
use crate::spread::Spreads;

/// Why a node is no candidate for what it did not accept.
const NOT_ACCEPTED: &str = "did not accept it in time";

/// A placement that found its node.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) node: Arc<Node>,
    pub(crate) resources: AllocatedResources,
    pub(crate) metrics: AllocMetric,
    /// Allocations that are evicted for it.
    pub(crate) victims: Vec<AllocId>,
    /// Allocations that this plan evicts and whose room it takes: it starts when they have ended.
    pub(crate) displaced: Vec<AllocId>,
}

/// Whether a placement that fits nowhere may evict others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Evicting {
    /// Where the cluster's configuration allows it to jobs of its kind.
    AsConfigured,
    /// It is not made now, so that nothing may go for it.
    Never,
}

/// What a placement is decided with besides the placer.
#[derive(Debug)]
pub(crate) struct Tools<'t> {
    pub(crate) overlay: &'t mut Overlay,
    pub(crate) ids: &'t mut Seeded,
    pub(crate) scratch: &'t mut Scratch,
}

/// Says which of a group's allocations may stay where they are with another version of the job.
#[derive(Debug)]
pub(crate) struct Staying<'a, 's> {
    pub(crate) placer: Placer<'a>,
    pub(crate) scratch: &'s mut Scratch,
}

impl Staying<'_, '_> {
    /// See [`Placer::gone`].
    pub(crate) fn gone(&mut self, alloc: &Allocation) {
        if !alloc.terminal() {
            self.placer.gone(alloc);
        }
    }

    /// See [`Placer::may_stay`].
    pub(crate) fn may_stay(&mut self, alloc: &Allocation) -> bool {
        self.placer.may_stay(alloc, self.scratch)
    }
}

/// Finds nodes for one task group's placements.
#[derive(Debug)]
pub(crate) struct Placer<'a> {
    snapshot: &'a Snapshot,
    job: &'a Job,
    group: &'a TaskGroup,
    feasibility: Feasibility<'a>,
    distinct: Distinct,
    spreads: Spreads,
    ranking: Ranking<'a>,
    ask: Ask<'a>,
    /// The number of the allocation that the fields are about, where that matters.
    index: Option<u32>,
    /// All candidates; made for the first placement that may go anywhere.
    field: Option<Field<'a>>,
    /// Nodes for which something changed since they were judged.
    touched: BTreeSet<NodeId>,
    /// Whether jobs of this kind evict less important ones.
    preempts: bool,
    /// Whether tasks may use memory beyond the reserved.
    oversubscribes: bool,
    /// All candidates without their victims; made for the first placement that fits nowhere.
    evicting: Option<Field<'a>>,
    touched_evicting: BTreeSet<NodeId>,
    /// The candidates by what is to be distinct; made when a value is used up.
    alike: Option<BTreeMap<Alike, Vec<NodeId>>>,
}

impl<'a> Placer<'a> {
    /// `standing`: the job's allocations as this decision leaves them so far.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        job: &'a Job,
        group: &'a TaskGroup,
        standing: Standing<'_>,
    ) -> Self {
        let config = snapshot.scheduler_config_of_pool(&job.node_pool);
        Self {
            snapshot,
            job,
            group,
            feasibility: Feasibility::new(job, group),
            distinct: Distinct::new(snapshot, job, group, standing),
            spreads: Spreads::new(snapshot, job, group, standing),
            ranking: Ranking::new(config.algorithm, job, group),
            ask: Ask::new(group),
            index: None,
            field: None,
            touched: BTreeSet::new(),
            preempts: config.preemption.allows(job.job_type),
            oversubscribes: config.memory_oversubscription,
            evicting: None,
            touched_evicting: BTreeSet::new(),
            alike: None,
        }
    }

    /// Feasibility, for the evaluation that goes on waiting.
    pub(crate) fn feasibility(&self) -> &Feasibility<'a> {
        &self.feasibility
    }

    /// Whether classes of nodes do not tell everything.
    pub(crate) fn escapes_class(&self) -> bool {
        self.feasibility.escapes_class() || !self.distinct.is_idle()
    }

    /// Whether `node` is in the job's pool and datacenters.
    pub(crate) fn in_scope(&self, node: &Node) -> bool {
        in_scope(self.job, node)
    }

    /// Whether an allocation of this group may be on `node`, room and other allocations aside.
    pub(crate) fn feasible(&mut self, node: &Node, scratch: &mut Scratch) -> bool {
        in_scope(self.job, node) && self.feasibility.check(node, self.index, scratch).is_ok()
    }

    /// `alloc` of this group is on its way out: the others need not keep their distance.
    pub(crate) fn gone(&mut self, alloc: &Allocation) {
        if let Some(record) = self.snapshot.node(alloc.node_id) {
            self.spreads.leave(alloc, &record.node);
            let ripple = self.distinct.leave(alloc, &record.node);
            self.touch(alloc.node_id, ripple);
        }
    }

    /// Whether `alloc` of this group may stay on its node with this version of the job. Its room is
    /// its own already.
    pub(crate) fn may_stay(&mut self, alloc: &Allocation, scratch: &mut Scratch) -> bool {
        let snapshot = self.snapshot;
        let Some(record) = snapshot.node(alloc.node_id) else {
            return false;
        };
        let index = alloc.index();
        if !in_scope(self.job, &record.node)
            || self
                .feasibility
                .check(&record.node, index, scratch)
                .is_err()
        {
            return false;
        }
        self.distinct.leave(alloc, &record.node);
        let apart = self.distinct.check(&record.node).is_ok();
        self.distinct.take(alloc, &record.node);
        apart
    }

    /// Whether a successor of `alloc` fits on its node, once that one is gone, as the snapshot has
    /// it: what else this decision changes is not looked at.
    pub(crate) fn makes_room(&self, alloc: &Allocation) -> bool {
        let Some(row) = self.snapshot.node_columns().row(alloc.node_id) else {
            return false;
        };
        let Some(record) = self.snapshot.node(alloc.node_id) else {
            return false;
        };
        let mut used = row.used.clone();
        used.subtract(&Usage::of(&alloc.allocated_resources));
        self.with_ask(&record.node, &row.capacity, used).is_ok()
    }

    /// What is used of `node` once one of the group is placed there.
    ///
    /// # Errors
    /// What there is too little of.
    fn with_ask(&self, node: &Node, capacity: &Capacity, mut used: Usage) -> Result<Usage, Lack> {
        let ask = self.ask.on(node, capacity, &used)?;
        used.add(&ask);
        Ok(used)
    }

    /// `alloc` of this group leaves if its successor finds a node.
    pub(crate) fn make_way(&mut self, alloc: &Allocation, overlay: &mut Overlay) {
        overlay.make_way(self.snapshot, alloc);
        self.gone(alloc);
    }

    /// What made way stays after all.
    pub(crate) fn stay(&mut self, alloc: &Allocation, overlay: &mut Overlay) {
        overlay.stay(self.snapshot, alloc);
        self.placed(alloc);
    }

    /// The placement is made: later ones of the group have to keep their distance.
    pub(crate) fn placed(&mut self, alloc: &Allocation) {
        if let Some(record) = self.snapshot.node(alloc.node_id) {
            self.spreads.take(alloc, &record.node);
            let ripple = self.distinct.take(alloc, &record.node);
            self.touch(alloc.node_id, ripple);
        }
    }

    fn touch(&mut self, node: NodeId, ripple: Ripple) {
        let mut touched = vec![node];
        match ripple {
            Ripple::Alike(values) if values.is_empty() => {}
            Ripple::Alike(values) => {
                if let Some(field) = &self.field {
                    let distinct = &self.distinct;
                    let alike = self
                        .alike
                        .get_or_insert_with(|| alike(distinct, field.nodes()));
                    let nodes = values.iter().filter_map(|value| alike.get(value));
                    touched.extend(nodes.flatten());
                }
            }
            Ripple::All => (self.field, self.evicting) = (None, None),
        }
        if self.evicting.is_some() {
            self.touched_evicting.extend(&touched);
        }
        self.touched.extend(touched);
    }

    /// Finds the best node for `wanted` and takes its room.
    ///
    /// # Errors
    /// Where no node is feasible and has room, with evictions or without: the explanation.
    pub(crate) fn place(
        &mut self,
        wanted: &Wanted,
        evicting: Evicting,
        tools: &mut Tools<'_>,
    ) -> Result<Placement, Box<AllocMetric>> {
        let past = Past::of(wanted);
        self.set_index(wanted);
        let (best, metrics) = if let Some(answer) = self.where_it_was(wanted, &past, tools) {
            answer
        } else if wanted.node.is_some() {
            let mut field = self.make_field(wanted.node, &past, tools);
            field.best(|cell| self.spreads.score(cell))
        } else {
            let mut field = self.up_to_date(&past, tools);
            let answer = field.best(|cell| self.spreads.score(cell));
            self.field = Some(field);
            // The next one may not have failed there.
            self.touched.extend(&past.nodes);
            answer
        };
        let placement = match (best, evicting) {
            (Some(candidate), _) => self.give(candidate, metrics.clone(), Vec::new(), tools),
            (None, Evicting::AsConfigured) => self.place_evicting(wanted, &past, tools),
            (None, Evicting::Never) => None,
        };
        placement.ok_or_else(|| Box::new(metrics))
    }

    /// Where nodes differ by the number of an allocation, what is known is about one number.
    fn set_index(&mut self, wanted: &Wanted) {
        let index = Allocation::index_of(&wanted.name);
        if self.feasibility.asks_by_index() && self.index != index {
            self.index = index;
            (self.field, self.evicting, self.alike) = (None, None, None);
        }
    }

    /// The node of the one that it takes the place of, where the group's disk is sticky and it
    /// fits there: no other is looked at then.
    fn where_it_was(
        &mut self,
        wanted: &Wanted,
        past: &Past,
        tools: &mut Tools<'_>,
    ) -> Option<(Option<Candidate<'a>>, AllocMetric)> {
        let disk = self.group.ephemeral_disk.as_ref();
        if wanted.node.is_some() || !disk.is_some_and(EphemeralDisk::sticky) {
            return None;
        }
        let node = wanted.previous.as_ref()?.node_id;
        let mut field = self.make_field(Some(node), past, tools);
        let (best, metrics) = field.best(|cell| self.spreads.score(cell));
        best.is_some().then_some((best, metrics))
    }

    /// Takes the room of one more of the group on a node that has it, `victims` left out.
    fn give(
        &mut self,
        candidate: Candidate<'a>,
        metrics: AllocMetric,
        victims: Vec<AllocId>,
        tools: &mut Tools<'_>,
    ) -> Option<Placement> {
        let (row, record) = candidate;
        let used = tools.overlay.used(row).clone();
        let displaced = self.displaced(candidate, &used, tools);
        let ids = &mut *tools.ids;
        let resources = ask::resources(self.group, &record.node, &row.capacity, &used, ids);
        // Counted when it was judged; nothing is placed without its ports all the same.
        debug_assert!(resources.is_some(), "a node that fits has the ports");
        let mut resources = resources?;
        if !self.oversubscribes {
            memory::withhold(&mut resources);
        }
        tools.overlay.take(row, &Usage::of(&resources));
        Some(Placement {
            node: Arc::clone(&record.node),
            resources,
            metrics,
            victims,
            displaced,
        })
    }

    /// What every candidate is for a placement that may go anywhere.
    pub(crate) fn explain(&mut self, tools: &mut Tools<'_>) -> AllocMetric {
        let mut field = self.make_field(None, &Past::default(), tools);
        field.best(|cell| self.spreads.score(cell)).1
    }

    /// The field of all candidates as everything is now.
    fn up_to_date(&mut self, past: &Past, tools: &mut Tools<'_>) -> Field<'a> {
        let touched = std::mem::take(&mut self.touched);
        let Some(mut field) = self.field.take() else {
            return self.make_field(None, past, tools);
        };
        for node in touched.union(&past.nodes) {
            field.judge_again(*node, |candidate| self.judge(candidate, past, tools));
        }
        field
    }

    fn make_field(
        &mut self,
        only: Option<NodeId>,
        past: &Past,
        tools: &mut Tools<'_>,
    ) -> Field<'a> {
        let mut counts = AllocMetric::default();
        let candidates = candidates(self.snapshot, self.job, only, &mut counts);
        Field::new(candidates, counts, |candidate| {
            let cell = self.spreads.cell_of(&candidate.1.node);
            (cell, self.judge(candidate, past, tools))
        })
    }

    /// What a candidate is for a placement of which earlier attempts failed on these nodes.
    fn judge(
        &mut self,
        (row, record): Candidate<'a>,
        past: &Past,
        tools: &mut Tools<'_>,
    ) -> Verdict {
        if let Some(filtered) = self.filter(&record.node, past, tools) {
            return filtered;
        }
        let used = tools.overlay.used(row).clone();
        match self.with_ask(&record.node, &row.capacity, used) {
            Ok(used) => self.fitting((row, record), &used, None, past, tools),
            Err(dimension) => Verdict::Exhausted(dimension.into_owned()),
        }
    }

    /// Why a node is out of the question, room aside, if it is.
    fn filter(&mut self, node: &Node, past: &Past, tools: &mut Tools<'_>) -> Option<Verdict> {
        if past.refused_by == Some(node.id) {
            return Some(Verdict::Filtered(NOT_ACCEPTED.to_owned()));
        }
        let filtered = self
            .feasibility
            .check(node, self.index, tools.scratch)
            .and_then(|()| self.distinct.check(node));
        filtered.err().map(|reason| Verdict::Filtered(reason.0))
    }

    /// The score of a candidate of which so much will be used, the placement included.
    fn fitting(
        &self,
        (row, record): Candidate<'a>,
        used: &Usage,
        preemption: Option<f64>,
        past: &Past,
        tools: &mut Tools<'_>,
    ) -> Verdict {
        let node = &record.node;
        let asked = Asked {
            capacity: &row.capacity,
            used,
            siblings: tools.overlay.siblings(node.id),
            penalized: past.nodes.contains(&node.id),
            own: tools.overlay.is_own(node.id),
            preemption,
        };
        Verdict::Fits {
            score: self.ranking.score(node, &asked, tools.scratch),
            tie: tools.ids.below(u32::MAX),
        }
    }
}

/// Nodes by what they may have in common.
fn alike<'a>(
    distinct: &Distinct,
    nodes: impl Iterator<Item = &'a Node>,
) -> BTreeMap<Alike, Vec<NodeId>> {
    let mut alike: BTreeMap<Alike, Vec<NodeId>> = BTreeMap::new();
    for node in nodes {
        for value in distinct.values_of(node) {
            alike.entry(value).or_default().push(node.id);
        }
    }
    alike
}

/// What became of earlier attempts at a placement.
#[derive(Debug, Default)]
struct Past {
    /// Where they failed, or were not accepted: anywhere else is better.
    nodes: BTreeSet<NodeId>,
    /// Where the last one was not accepted: there it is no use.
    refused_by: Option<NodeId>,
}

impl Past {
    fn of(wanted: &Wanted) -> Self {
        let tracker = wanted.tracker.as_ref().filter(|_| wanted.penalized);
        let events = tracker.into_iter().flat_map(|tracker| &tracker.events);
        let mut nodes: BTreeSet<NodeId> = events.map(|event| event.prev_node_id).collect();
        let previous = wanted.previous.as_ref().filter(|_| wanted.elsewhere);
        let refused_by = previous.map(|alloc| alloc.node_id);
        nodes.extend(refused_by);
        Self { nodes, refused_by }
    }
}
