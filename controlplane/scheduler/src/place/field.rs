//! The field of one group's candidates: each was judged once, and is judged again when something
//! changed that concerns it. The best one stands at the top of a heap.
//!
//! ```text
//!   candidate --judged--> filtered | exhausted | fits, with a score
//!   placed, made way, stayed on its node --> judged again; its older entry in the heap is stale
//! ```
//!
//! A placement changes one node, so that 50,000 placements on 5,000 nodes cost tens of thousands of
//! judgements and not hundreds of millions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use protocol_model::{AllocMetric, Node, NodeId, NodeScoreMeta};

use super::scope::Candidate;
use crate::rank::Score;

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
    heap: BinaryHeap<Entry>,
    /// What the explanation of every placement has in common.
    counts: AllocMetric,
}

#[derive(Debug)]
struct Judged<'a> {
    candidate: Candidate<'a>,
    verdict: Verdict,
    /// How often it was judged: an entry of the heap with an older number is stale.
    times: u32,
}

/// A candidate that fits, as good as it was when it was judged.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    norm: f64,
    tie: u32,
    offset: usize,
    times: u32,
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let Self {
            norm,
            tie,
            offset,
            times,
        } = self;
        norm.total_cmp(&other.norm)
            .then(tie.cmp(&other.tie))
            // Among full equals the first node, as if they were looked at one after the other.
            .then(other.offset.cmp(offset))
            .then(times.cmp(&other.times))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Field<'a> {
    /// The field of `candidates`, which come in the order of their nodes' ids, each judged once;
    /// `counts` says how they were chosen.
    pub(super) fn new(
        candidates: Vec<Candidate<'a>>,
        counts: AllocMetric,
        mut judge: impl FnMut(Candidate<'a>) -> Verdict,
    ) -> Self {
        let mut field = Self {
            candidates: Vec::with_capacity(candidates.len()),
            heap: BinaryHeap::new(),
            counts,
        };
        let mut entries = Vec::with_capacity(candidates.len());
        for (offset, candidate) in candidates.into_iter().enumerate() {
            let verdict = judge(candidate);
            count(&mut field.counts, &candidate.1.node, &verdict);
            entries.extend(entry(offset, 0, &verdict));
            field.candidates.push(Judged {
                candidate,
                verdict,
                times: 0,
            });
        }
        field.counts.nodes_evaluated = u64::try_from(field.candidates.len()).unwrap_or(u64::MAX);
        field.heap = BinaryHeap::from(entries);
        field
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
        let Some(judged) = self.candidates.get_mut(offset) else {
            return;
        };
        let verdict = judge(judged.candidate);
        judged.times = judged.times.wrapping_add(1);
        let times = judged.times;
        let before = std::mem::replace(&mut judged.verdict, verdict);
        uncount(&mut self.counts, &judged.candidate.1.node, &before);
        count(&mut self.counts, &judged.candidate.1.node, &judged.verdict);
        self.heap.extend(entry(offset, times, &judged.verdict));
    }

    /// The best candidate, where one fits, and the explanation.
    pub(super) fn best(&mut self) -> (Option<Candidate<'a>>, AllocMetric) {
        let mut top: Vec<Entry> = Vec::with_capacity(SCORES_MAX);
        while top.len() < SCORES_MAX
            && let Some(entry) = self.heap.pop()
        {
            let times = self.candidates.get(entry.offset).map(|judged| judged.times);
            if times == Some(entry.times) {
                top.push(entry);
            }
        }
        let mut metrics = self.counts.clone();
        metrics.score_meta_data = top.iter().filter_map(|entry| self.meta(*entry)).collect();
        let best = top.first().and_then(|entry| {
            let judged = self.candidates.get(entry.offset)?;
            Some(judged.candidate)
        });
        self.heap.extend(top);
        (best, metrics)
    }

    fn meta(&self, entry: Entry) -> Option<NodeScoreMeta> {
        let judged = self.candidates.get(entry.offset)?;
        let Verdict::Fits { score, .. } = &judged.verdict else {
            return None;
        };
        Some(NodeScoreMeta {
            node_id: judged.candidate.0.node,
            scores: score.components(),
            norm_score: score.norm(),
        })
    }
}

fn entry(offset: usize, times: u32, verdict: &Verdict) -> Option<Entry> {
    match verdict {
        Verdict::Filtered(_) | Verdict::Exhausted(_) => None,
        Verdict::Fits { score, tie } => Some(Entry {
            norm: score.order(),
            tie: *tie,
            offset,
            times,
        }),
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
