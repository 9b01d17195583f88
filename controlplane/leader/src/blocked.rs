//! Blocked evaluations: those that found no room, until something that could help them changes.
//!
//! An evaluation knows which classes of nodes it looked at: a class that was not feasible cannot
//! help it, any other may. One whose constraints look at properties unique to a node ("escaped")
//! may be helped by any node. Nodes outside of the job's pool and datacenters help nobody: whoever
//! calls says which those are. Per job at most one is kept; the older one is needless.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use protocol_model::{EvalId, Evaluation, JobKey, NodeId, UnixNanos};

/// Classes whose last change is remembered, to notice a change between an evaluation's snapshot and
/// its arrival here. When full all go, which can only cause a needless try.
const CLASSES_MAX: usize = 4096;

/// Whether a node is one of those that an evaluation's job is about at all.
pub type Concerns<'c> = &'c dyn Fn(&Evaluation, NodeId) -> bool;

/// A node has more room than before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Freed<'f> {
    /// The node.
    pub node: NodeId,
    /// Its class.
    pub class: &'f Arc<str>,
    /// It is new to whoever looked then or later.
    pub since: UnixNanos,
    /// The log index of the change.
    pub index: u64,
}

impl<'f> Freed<'f> {
    /// See the fields.
    pub fn new(node: NodeId, class: &'f Arc<str>, since: UnixNanos, index: u64) -> Self {
        Self {
            node,
            class,
            since,
            index,
        }
    }
}

/// The last change of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Last {
    index: u64,
    /// All nodes of a class are in one pool and datacenter: this one stands for them.
    node: NodeId,
}

/// See the top of this file.
#[derive(Debug, Default)]
pub struct BlockedEvals {
    evals: BTreeMap<EvalId, Arc<Evaluation>>,
    by_job: BTreeMap<JobKey, BTreeSet<EvalId>>,
    /// How many of them any node may help.
    escaped: usize,
    /// When a class last had more room than before.
    freed: BTreeMap<Arc<str>, Last>,
    /// An index at or above every forgotten entry of `freed`.
    freed_unknown: u64,
    unblocked: VecDeque<Arc<Evaluation>>,
    duplicates: VecDeque<Arc<Evaluation>>,
}

impl BlockedEvals {
    /// Nothing blocked.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps an evaluation until something that could help it changes; lets it go at once where
    /// that happened after the snapshot that it was scheduled from.
    pub fn block(&mut self, eval: Arc<Evaluation>, concerns: Concerns<'_>) {
        if self.evals.contains_key(&eval.id) {
            return;
        }
        if self.missed(&eval, concerns) {
            self.unblocked.push_back(eval);
            return;
        }
        let job = eval.job_key();
        // One looks at all nodes, for system jobs, too.
        if let Some(older) = self.by_job.get(&job).and_then(|ids| ids.first().copied())
            && let Some(older) = self.take(older)
        {
            let (kept, needless) = if older.create_index > eval.create_index {
                (older, eval)
            } else {
                (eval, older)
            };
            self.duplicates.push_back(needless);
            return self.keep(kept);
        }
        self.keep(eval);
    }

    /// A node has more room than before.
    pub fn on_capacity(&mut self, freed: &Freed<'_>, concerns: Concerns<'_>) {
        let Freed {
            node,
            class,
            since,
            index,
        } = *freed;
        if self.freed.len() >= CLASSES_MAX && !self.freed.contains_key(class) {
            let forgotten = self.freed.values().map(|last| last.index).max();
            self.freed_unknown = self.freed_unknown.max(forgotten.unwrap_or(0));
            self.freed.clear();
        }
        self.freed.insert(Arc::clone(class), Last { index, node });
        let helped: Vec<EvalId> = self
            .evals
            .values()
            .filter(|eval| eval.modify_time >= since)
            .filter(|eval| class_may_help(eval, class) && concerns(eval, node))
            .map(|eval| eval.id)
            .collect();
        for id in helped {
            if let Some(eval) = self.take(id) {
                self.unblocked.push_back(eval);
            }
        }
    }

    /// The state says that an evaluation is over.
    pub fn remove(&mut self, id: EvalId) {
        self.take(id);
        self.unblocked.retain(|eval| eval.id != id);
    }

    /// A job changed or went: what was blocked on its behalf is looked at by its new evaluation.
    pub fn untrack(&mut self, job: &JobKey) {
        for id in self.by_job.get(job).cloned().unwrap_or_default() {
            if let Some(eval) = self.take(id) {
                self.duplicates.push_back(eval);
            }
        }
    }

    /// Evaluations to try again, at most `count_max`.
    pub fn take_unblocked(&mut self, count_max: usize) -> Vec<Arc<Evaluation>> {
        let count = self.unblocked.len().min(count_max);
        self.unblocked.drain(..count).collect()
    }

    /// Evaluations that a newer one of their job makes needless, at most `count_max`.
    pub fn take_duplicates(&mut self, count_max: usize) -> Vec<Arc<Evaluation>> {
        let count = self.duplicates.len().min(count_max);
        self.duplicates.drain(..count).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.evals.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.evals.is_empty()
    }

    /// How many of them any node may help.
    pub fn escaped(&self) -> usize {
        self.escaped
    }

    fn keep(&mut self, eval: Arc<Evaluation>) {
        self.by_job
            .entry(eval.job_key())
            .or_default()
            .insert(eval.id);
        self.escaped += usize::from(eval.escaped_computed_class);
        self.evals.insert(eval.id, eval);
    }

    fn take(&mut self, id: EvalId) -> Option<Arc<Evaluation>> {
        let eval = self.evals.remove(&id)?;
        self.escaped -= usize::from(eval.escaped_computed_class);
        let job = eval.job_key();
        if let Some(ids) = self.by_job.get_mut(&job) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_job.remove(&job);
            }
        }
        Some(eval)
    }

    /// Whether a class that may help had more room after the evaluation's snapshot.
    fn missed(&self, eval: &Evaluation, concerns: Concerns<'_>) -> bool {
        if eval.snapshot_index == 0 {
            return false;
        }
        let helps = |(class, last): (&Arc<str>, &Last)| {
            last.index > eval.snapshot_index
                && class_may_help(eval, class)
                && concerns(eval, last.node)
        };
        eval.snapshot_index < self.freed_unknown || self.freed.iter().any(helps)
    }
}

fn class_may_help(eval: &Evaluation, class: &str) -> bool {
    eval.escaped_computed_class || eval.class_eligibility.get(class).copied().unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use protocol_model::{EvalTrigger, JobType};

    use super::*;

    fn eval(number: u128, job: &str) -> Evaluation {
        let mut eval = Evaluation::new(
            EvalId::from_u128(number),
            &JobKey::new("default", job),
            JobType::Service,
            50,
            EvalTrigger::QueuedAllocs,
            UnixNanos::ZERO,
        );
        eval.create_index = u64::try_from(number).expect("small");
        eval.snapshot_index = 10;
        eval.class_eligibility = [("good".to_owned(), true), ("bad".to_owned(), false)].into();
        eval
    }

    fn freed(blocked: &mut BlockedEvals, class: &str, index: u64) -> usize {
        freed_since(blocked, class, UnixNanos::ZERO, index)
    }

    fn freed_since(blocked: &mut BlockedEvals, class: &str, since: UnixNanos, index: u64) -> usize {
        let class = &Arc::from(class);
        blocked.on_capacity(&Freed::new(NodeId::from_u128(1), class, since, index), ALL);
        blocked.take_unblocked(100).len()
    }

    const ALL: Concerns<'static> = &|_, _| true;

    #[test]
    fn a_node_that_is_none_of_its_job_s_business_wakes_nobody() {
        let of_a: Concerns<'_> = &|eval, node| (eval.job_id == "a") == (node.0.as_u128() == 7);
        let unheard: &Arc<str> = &Arc::from("another pool's");
        let freed = |index| Freed::new(NodeId::from_u128(7), unheard, UnixNanos::ZERO, index);
        let mut blocked = BlockedEvals::new();
        blocked.block(Arc::new(eval(1, "a")), of_a);
        blocked.block(Arc::new(eval(2, "b")), of_a);
        let escaped = Evaluation {
            escaped_computed_class: true,
            ..eval(3, "c")
        };
        blocked.block(Arc::new(escaped), of_a);
        blocked.on_capacity(&freed(11), of_a);
        let woken = blocked.take_unblocked(100);
        assert_eq!(woken.len(), 1);
        assert_eq!(woken[0].job_id, "a");
        // What was freed while they were scheduled, too.
        blocked.block(Arc::new(eval(4, "d")), of_a);
        assert_eq!(blocked.take_unblocked(100).len(), 0);
        blocked.block(Arc::new(eval(5, "a")), of_a);
        assert_eq!(blocked.take_unblocked(100).len(), 1);
    }

    #[test]
    fn only_a_class_that_may_help_wakes_an_evaluation() {
        let mut blocked = BlockedEvals::new();
        blocked.block(Arc::new(eval(1, "a")), ALL);
        assert_eq!(freed(&mut blocked, "bad", 11), 0);
        assert_eq!(freed(&mut blocked, "good", 12), 1);
        blocked.block(
            Arc::new(Evaluation {
                snapshot_index: 12,
                ..eval(2, "a")
            }),
            ALL,
        );
        assert_eq!(freed(&mut blocked, "never seen", 13), 1);
    }

    #[test]
    fn an_escaped_evaluation_is_woken_by_any_class() {
        let mut blocked = BlockedEvals::new();
        blocked.block(
            Arc::new(Evaluation {
                escaped_computed_class: true,
                ..eval(1, "a")
            }),
            ALL,
        );
        assert_eq!(freed(&mut blocked, "bad", 11), 1);
    }

    #[test]
    fn how_many_any_node_may_help_is_known_without_looking_at_them() {
        let mut blocked = BlockedEvals::new();
        let escaped = |number, job| {
            Arc::new(Evaluation {
                escaped_computed_class: true,
                ..eval(number, job)
            })
        };
        blocked.block(escaped(1, "a"), ALL);
        blocked.block(escaped(1, "a"), ALL);
        blocked.block(escaped(2, "b"), ALL);
        blocked.block(Arc::new(eval(3, "c")), ALL);
        assert_eq!((blocked.len(), blocked.escaped()), (3, 2));
        blocked.block(Arc::new(eval(4, "b")), ALL);
        assert_eq!((blocked.len(), blocked.escaped()), (3, 1));
        blocked.remove(EvalId::from_u128(1));
        assert_eq!((blocked.len(), blocked.escaped()), (2, 0));
    }

    #[test]
    fn room_that_appeared_after_the_snapshot_is_not_missed() {
        let mut blocked = BlockedEvals::new();
        assert_eq!(freed(&mut blocked, "good", 20), 0);
        blocked.block(Arc::new(eval(1, "a")), ALL);
        assert_eq!(blocked.take_unblocked(10).len(), 1);
        blocked.block(
            Arc::new(Evaluation {
                snapshot_index: 20,
                ..eval(2, "a")
            }),
            ALL,
        );
        assert_eq!(blocked.len(), 1);
    }

    #[test]
    fn a_node_that_is_back_as_it_was_wakes_who_looked_while_it_was_away() {
        let mut blocked = BlockedEvals::new();
        let looked = |number, seconds| {
            Arc::new(Evaluation {
                modify_time: UnixNanos(seconds),
                ..eval(number, &number.to_string())
            })
        };
        blocked.block(looked(1, 99), ALL);
        blocked.block(looked(2, 100), ALL);
        assert_eq!(freed_since(&mut blocked, "good", UnixNanos(100), 20), 1);
        assert_eq!(blocked.len(), 1);
    }

    #[test]
    fn one_evaluation_per_job_is_kept_the_newest() {
        let mut blocked = BlockedEvals::new();
        blocked.block(Arc::new(eval(2, "a")), ALL);
        blocked.block(Arc::new(eval(1, "a")), ALL);
        blocked.block(Arc::new(eval(3, "a")), ALL);
        assert_eq!(blocked.len(), 1);
        let needless: Vec<_> = blocked
            .take_duplicates(10)
            .iter()
            .map(|eval| eval.id.0.as_u128())
            .collect();
        assert_eq!(needless, [1, 2]);
    }
}
