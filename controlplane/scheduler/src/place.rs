//! Finding a node for each wanted placement: feasible, with room, and the best of those.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::{
    NodeRecord, NodeRow, Readiness, Snapshot, Usage, datacenter_matches, fit,
};
use protocol_model::{
    AllocId, AllocMetric, AllocatedResources, Job, Node, NodeId, NodeScoreMeta, TaskGroup,
};

use crate::ask;
use crate::feasible::{Distinct, Feasibility};
use crate::ids::Seeded;
use crate::rank::{Asked, Ranking, Score};
use crate::reconcile::Wanted;
use crate::scratch::Scratch;

/// Scores that an explanation keeps, best first (as Nomad).
const SCORES_MAX: usize = 5;

/// What this decision has changed so far on top of the snapshot.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    used: BTreeMap<NodeId, Usage>,
    siblings: BTreeMap<NodeId, u32>,
}

impl Overlay {
    /// Room on `row`'s node as this decision leaves it.
    pub(crate) fn used<'a>(&'a self, row: &'a NodeRow) -> &'a Usage {
        self.used.get(&row.node).unwrap_or(&row.used)
    }

    /// What `usage` took on `row`'s node is free again.
    pub(crate) fn release(&mut self, row: &NodeRow, usage: &Usage) {
        self.used
            .entry(row.node)
            .or_insert_with(|| row.used.clone())
            .subtract(usage);
    }

    fn take(&mut self, row: &NodeRow, usage: &Usage) {
        self.used
            .entry(row.node)
            .or_insert_with(|| row.used.clone())
            .add(usage);
    }

    /// A new group begins: `standing` are where its allocations stand.
    pub(crate) fn begin_group(&mut self, standing: impl Iterator<Item = NodeId>) {
        self.siblings.clear();
        for node in standing {
            *self.siblings.entry(node).or_default() += 1;
        }
    }
}

/// A placement that found its node.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) node: Arc<Node>,
    pub(crate) resources: AllocatedResources,
    pub(crate) metrics: AllocMetric,
}

/// Finds nodes for one task group's placements.
#[derive(Debug)]
pub(crate) struct Placer<'a> {
    snapshot: &'a Snapshot,
    job: &'a Job,
    group: &'a TaskGroup,
    feasibility: Feasibility<'a>,
    distinct: Distinct,
    ranking: Ranking<'a>,
    ask: Usage,
}

/// A node in the job's pool and datacenters that may be placed on.
type Candidate<'a> = (&'a NodeRow, &'a Arc<NodeRecord>);

impl<'a> Placer<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        job: &'a Job,
        group: &'a TaskGroup,
        leaving: &BTreeSet<AllocId>,
    ) -> Self {
        Self {
            snapshot,
            job,
            group,
            feasibility: Feasibility::new(job, group),
            distinct: Distinct::new(snapshot, job, group, leaving),
            ranking: Ranking::new(snapshot.scheduler_config().algorithm, job, group),
            ask: ask::fixed(group),
        }
    }

    /// What was found out about classes of nodes.
    pub(crate) fn class_eligibility(&self) -> BTreeMap<String, bool> {
        self.feasibility.class_eligibility()
    }

    /// Whether classes of nodes do not tell everything.
    pub(crate) fn escapes_class(&self) -> bool {
        self.feasibility.escapes_class() || !self.distinct.is_idle()
    }

    /// Whether an allocation of this group may stay on `node`, room aside.
    pub(crate) fn feasible(&mut self, node: &Node, scratch: &mut Scratch) -> bool {
        in_scope(self.job, node) && self.feasibility.check(node, scratch).is_ok()
    }

    /// Finds the best node for `wanted` and takes its room.
    ///
    /// # Errors
    /// Where no node is feasible and has room: the explanation.
    pub(crate) fn place(
        &mut self,
        wanted: &Wanted,
        overlay: &mut Overlay,
        ids: &mut Seeded,
        scratch: &mut Scratch,
    ) -> Result<Placement, Box<AllocMetric>> {
        let snapshot = self.snapshot;
        let mut metrics = AllocMetric::default();
        let mut best: Option<(Score, u32, Candidate<'_>)> = None;
        for (row, record) in candidates(snapshot, self.job, wanted.node, &mut metrics) {
            let Some(score) = self.score(row, record, wanted, overlay, &mut metrics, scratch)
            else {
                continue;
            };
            let tie = ids.below(u32::MAX);
            let better = best.as_ref().is_none_or(|(leader, leader_tie, _)| {
                score
                    .norm
                    .total_cmp(&leader.norm)
                    .then(tie.cmp(leader_tie))
                    .is_gt()
            });
            note(&mut metrics, record.node.id, &score);
            if better {
                best = Some((score, tie, (row, record)));
            }
        }
        let Some((_, _, (row, record))) = best else {
            return Err(Box::new(metrics));
        };
        let used = overlay.used(row).clone();
        let Some(resources) = ask::resources(self.group, &record.node, &row.capacity, &used, ids)
        else {
            metrics.nodes_exhausted += 1;
            *metrics
                .dimension_exhausted
                .entry("network: dynamic port selection failed".to_owned())
                .or_default() += 1;
            return Err(Box::new(metrics));
        };
        overlay.take(row, &Usage::of(&resources));
        *overlay.siblings.entry(row.node).or_default() += 1;
        Ok(Placement {
            node: Arc::clone(&record.node),
            resources,
            metrics,
        })
    }

    /// The placement is made: later ones of the group have to keep their distance.
    pub(crate) fn placed(&mut self, alloc: &protocol_model::Allocation, node: &Node) {
        self.distinct.place(alloc, node);
    }

    fn score(
        &mut self,
        row: &NodeRow,
        record: &NodeRecord,
        wanted: &Wanted,
        overlay: &Overlay,
        metrics: &mut AllocMetric,
        scratch: &mut Scratch,
    ) -> Option<Score> {
        let node = &record.node;
        metrics.nodes_evaluated += 1;
        let filtered = self
            .feasibility
            .check(node, scratch)
            .and_then(|()| self.distinct.check(node));
        if let Err(reason) = filtered {
            metrics.nodes_filtered += 1;
            *metrics.constraint_filtered.entry(reason.0).or_default() += 1;
            count_class(&mut metrics.class_filtered, node);
            return None;
        }
        let mut used = overlay.used(row).clone();
        if let Err(dimension) = fit::fits(&row.capacity, &used, &self.ask) {
            metrics.nodes_exhausted += 1;
            *metrics
                .dimension_exhausted
                .entry(dimension.to_string())
                .or_default() += 1;
            count_class(&mut metrics.class_exhausted, node);
            return None;
        }
        used.add(&self.ask);
        let failed_here = wanted.tracker.as_ref().is_some_and(|tracker| {
            tracker
                .events
                .iter()
                .any(|event| event.prev_node_id == node.id)
        });
        let asked = Asked {
            capacity: &row.capacity,
            used: &used,
            siblings: overlay.siblings.get(&node.id).copied().unwrap_or(0),
            penalized: wanted.penalized && failed_here,
        };
        Some(self.ranking.score(node, &asked, scratch))
    }
}

/// An allocation that was to leave stays after all: its room is taken again.
pub(crate) fn keep(overlay: &mut Overlay, snapshot: &Snapshot, alloc: &protocol_model::Allocation) {
    if let Some(row) = snapshot.node_columns().row(alloc.node_id) {
        overlay.take(row, &Usage::of(&alloc.allocated_resources));
    }
}

/// Nodes in the job's pool and datacenters that may be placed on; counted for the explanation.
fn candidates<'s>(
    snapshot: &'s Snapshot,
    job: &Job,
    only: Option<NodeId>,
    metrics: &mut AllocMetric,
) -> Vec<Candidate<'s>> {
    let rows: Vec<&NodeRow> = match only {
        Some(node) => snapshot.node_columns().row(node).into_iter().collect(),
        None => snapshot.node_columns().rows().map(|(_, row)| row).collect(),
    };
    let mut found = Vec::new();
    for row in rows {
        if row.readiness != Readiness::Ready {
            continue;
        }
        let Some(record) = snapshot.node(row.node) else {
            continue;
        };
        if !in_pool(job, &record.node) {
            continue;
        }
        metrics.nodes_in_pool += 1;
        if in_datacenters(job, &record.node) {
            *metrics
                .nodes_available
                .entry(record.node.datacenter.clone())
                .or_default() += 1;
            found.push((row, record));
        }
    }
    found
}

/// Whether a node is in the job's pool and datacenters.
pub(crate) fn in_scope(job: &Job, node: &Node) -> bool {
    in_pool(job, node) && in_datacenters(job, node)
}

fn in_pool(job: &Job, node: &Node) -> bool {
    matches!(job.node_pool.as_str(), "all" | "") || job.node_pool == node.node_pool
}

fn in_datacenters(job: &Job, node: &Node) -> bool {
    job.datacenters.is_empty()
        || job
            .datacenters
            .iter()
            .any(|pattern| datacenter_matches(pattern, &node.datacenter))
}

/// Keeps the best scores for the explanation.
fn note(metrics: &mut AllocMetric, node_id: NodeId, score: &Score) {
    let scores = &mut metrics.score_meta_data;
    let at = scores.partition_point(|known| known.norm_score >= score.norm);
    if at >= SCORES_MAX {
        return;
    }
    let meta = NodeScoreMeta {
        node_id,
        scores: score.components.clone(),
        norm_score: score.norm,
    };
    scores.insert(at, meta);
    scores.truncate(SCORES_MAX);
}

fn count_class(counts: &mut BTreeMap<String, u64>, node: &Node) {
    if !node.node_class.is_empty() {
        *counts.entry(node.node_class.clone()).or_default() += 1;
    }
}
