//! The field of one group's candidates: each was judged once, and is judged again when something
//! changed that concerns it. The best one is found by `heaps`.
//!
//! ```text
//!   candidate --judged--> filtered | exhausted | fits, with a score
//!   placed, made way, stayed on its node --> judged again; its older entry in the heap is stale
//! ```
//!
//! A placement changes one node, so that 50,000 placements on 5,000 nodes cost tens of thousands of
//! judgements and not hundreds of millions.

use std::collections::BTreeMap;

use protocol_model::{AllocMetric, Node, NodeId, NodeScoreMeta};

use super::heaps::{Entry, Heaps};
use super::scope::Candidate;
use crate::rank::Score;
use crate::spread::Cell;

/// Scores that an explanation keeps, best first (as Nomad).
const SCORES_MAX: usize = 5;

/// What a candidate is for the next placement.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Verdict {
    /// It is out of the question, for this reason.
    Filtered(String),
    /// It has too little of this.
    Exhausted(String),
    /// It is this good; `tie` decides among equals.
    Fits { score: Score, tie: u32 },
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Field<'a> {
    /// In the order of their nodes' ids.
    candidates: Vec<Judged<'a>>,
    cells: Vec<Cell>,
    fitting: Heaps,
    /// What the explanation of every placement has in common.
    counts: AllocMetric,
}

#[derive(Debug)]
struct Judged<'a> {
    candidate: Candidate<'a>,
    cell: usize,
    verdict: Verdict,
    /// How often it was judged: an entry of the heap with an older number is stale.
    times: u32,
}

impl<'a> Field<'a> {
    /// The field of `candidates`, which come in the order of their nodes' ids, each judged once;
    /// `counts` says how they were chosen.
    pub(super) fn new(
        candidates: Vec<Candidate<'a>>,
        counts: AllocMetric,
        mut judge: impl FnMut(Candidate<'a>) -> (Cell, Verdict),
    ) -> Self {
        let mut field = Self {
            candidates: Vec::with_capacity(candidates.len()),
            cells: Vec::new(),
            fitting: Heaps::default(),
            counts,
        };
        let mut numbers: BTreeMap<Cell, usize> = BTreeMap::new();
        for (offset, candidate) in candidates.into_iter().enumerate() {
            let (cell, verdict) = judge(candidate);
            let cell = match numbers.get(&cell) {
                Some(number) => *number,
                None => {
                    numbers.insert(cell.clone(), field.cells.len());
                    field.cells.push(cell);
                    field.cells.len() - 1
                }
            };
            count(&mut field.counts, &candidate.1.node, &verdict);
            let judged = Judged {
                candidate,
                cell,
                verdict,
                times: 0,
            };
            field.enter(offset, &judged);
            field.candidates.push(judged);
        }
        field.counts.nodes_evaluated = u64::try_from(field.candidates.len()).unwrap_or(u64::MAX);
        field
    }

    fn enter(&mut self, offset: usize, judged: &Judged<'a>) {
        if let Verdict::Fits { score, tie } = &judged.verdict {
            let parts = score.order();
            let entry = Entry {
                value: parts.sum,
                tie: *tie,
                offset,
                times: judged.times,
            };
            self.fitting.push(judged.cell, parts.count, entry);
        }
    }

    /// The nodes of all candidates.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a Node> + '_ {
        let nodes = self.candidates.iter();
        nodes.map(|judged| -> &'a Node { &judged.candidate.1.node })
    }

    /// How often somebody was judged once more.
    #[cfg(test)]
    pub(super) fn judged_again(&self) -> u32 {
        self.candidates.iter().map(|judged| judged.times).sum()
    }

    /// Something changed for `node`, if it is in the field.
    pub(super) fn judge_again(
        &mut self,
        node: NodeId,
        judge: impl FnOnce(Candidate<'a>) -> Verdict,
    ) {
        let found = self
            .candidates
            .binary_search_by_key(&node, |judged| judged.candidate.0.node);
        let Ok(offset) = found else {
            return;
        };
        let Some(judged) = self.candidates.get(offset) else {
            return;
        };
        let verdict = judge(judged.candidate);
        let judged = Judged {
            verdict,
            times: judged.times.wrapping_add(1),
            ..*judged
        };
        count(&mut self.counts, &judged.candidate.1.node, &judged.verdict);
        self.enter(offset, &judged);
        let Some(place) = self.candidates.get_mut(offset) else {
            return;
        };
        let before = std::mem::replace(place, judged);
        uncount(&mut self.counts, &before.candidate.1.node, &before.verdict);
        if let Verdict::Fits { score, .. } = &before.verdict {
            let is_stale = is_stale(&self.candidates);
            let count = score.order().count;
            self.fitting.outdated(before.cell, count, is_stale);
        }
    }

    /// The best candidate, where one fits, and the explanation. `spread` is the component of each
    /// cell.
    pub(super) fn best(
        &mut self,
        spread: impl FnMut(&Cell) -> f64,
    ) -> (Option<Candidate<'a>>, AllocMetric) {
        let spreads: Vec<f64> = self.cells.iter().map(spread).collect();
        let is_stale = is_stale(&self.candidates);
        let best = self.fitting.best(SCORES_MAX, &spreads, is_stale);
        let mut metrics = self.counts.clone();
        let scores = best
            .iter()
            .filter_map(|offset| self.meta(*offset, &spreads));
        metrics.score_meta_data = scores.collect();
        let first = best.first().and_then(|offset| {
            let judged = self.candidates.get(*offset)?;
            Some(judged.candidate)
        });
        (first, metrics)
    }

    fn meta(&self, offset: usize, spreads: &[f64]) -> Option<NodeScoreMeta> {
        let judged = self.candidates.get(offset)?;
        let Verdict::Fits { score, .. } = &judged.verdict else {
            return None;
        };
        let score = score.with_spread(spreads.get(judged.cell).copied().unwrap_or(0.0));
        Some(NodeScoreMeta {
            node_id: judged.candidate.0.node,
            scores: score.components(),
            norm_score: score.norm(),
        })
    }
}

/// Whether an entry's candidate was judged again since.
fn is_stale<'c>(candidates: &'c [Judged<'_>]) -> impl Fn(&Entry) -> bool + 'c {
    |entry| {
        let judged = candidates.get(entry.offset);
        judged.is_none_or(|judged| judged.times != entry.times)
    }
}

/// Where an explanation tells of a verdict.
struct Tally<'m> {
    nodes: &'m mut u64,
    reasons: &'m mut BTreeMap<String, u64>,
    classes: &'m mut BTreeMap<String, u64>,
    reason: &'m str,
}

/// `None` for a node that fits.
fn tally<'m>(metrics: &'m mut AllocMetric, verdict: &'m Verdict) -> Option<Tally<'m>> {
    match verdict {
        Verdict::Filtered(reason) => Some(Tally {
            nodes: &mut metrics.nodes_filtered,
            reasons: &mut metrics.constraint_filtered,
            classes: &mut metrics.class_filtered,
            reason,
        }),
        Verdict::Exhausted(reason) => Some(Tally {
            nodes: &mut metrics.nodes_exhausted,
            reasons: &mut metrics.dimension_exhausted,
            classes: &mut metrics.class_exhausted,
            reason,
        }),
        Verdict::Fits { .. } => None,
    }
}

fn count(metrics: &mut AllocMetric, node: &Node, verdict: &Verdict) {
    let Some(tally) = tally(metrics, verdict) else {
        return;
    };
    *tally.nodes += 1;
    *tally.reasons.entry(tally.reason.to_owned()).or_default() += 1;
    if !node.node_class.is_empty() {
        *tally.classes.entry(node.node_class.clone()).or_default() += 1;
    }
}

fn uncount(metrics: &mut AllocMetric, node: &Node, verdict: &Verdict) {
    let Some(tally) = tally(metrics, verdict) else {
        return;
    };
    *tally.nodes = tally.nodes.saturating_sub(1);
    one_less(tally.reasons, tally.reason);
    one_less(tally.classes, &node.node_class);
}

/// What nobody has is not told.
fn one_less(counts: &mut BTreeMap<String, u64>, key: &str) {
    if let Some(known) = counts.get_mut(key) {
        *known = known.saturating_sub(1);
        if *known == 0 {
            counts.remove(key);
        }
    }
}
