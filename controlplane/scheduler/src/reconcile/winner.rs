//! Which of two allocations with one number stays, when a silent node is back and what took its
//! place runs: `disconnect { reconcile = ... }`. One that does not run, or is of an older version,
//! never stays at the cost of the other, whatever the group says. Where the older one is the one
//! that runs, it goes if it would have to be replaced for the newer version anyway (as in Nomad),
//! and stays if it only changes in place.

use std::cmp::Reverse;

use protocol_model::{Allocation, ClientStatus, ReconcileStrategy, TaskGroup, UnixNanos};

/// What the group says, `best_score` where it says nothing (as Nomad).
#[derive(Clone, Copy, Debug)]
pub(super) struct Winner<'a> {
    group: &'a TaskGroup,
    strategy: ReconcileStrategy,
}

/// Among equals otherwise, the lowest stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rank {
    /// All are alike: the oldest stays.
    Equal,
    /// What came in its place, before what is back.
    Returning(bool),
    /// What was placed better.
    Score(Reverse<Score>),
    /// What has run longest; what does not run is last.
    Since(UnixNanos),
}

/// A score, ordered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Score(f64);

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'a> Winner<'a> {
    /// By what the group says. Words that mean nothing were refused when the job was registered.
    pub(super) fn of(group: &'a TaskGroup) -> Self {
        let block = group.disconnect.as_ref();
        let said = block.and_then(|block| block.reconcile().ok());
        Self {
            group,
            strategy: said.unwrap_or(ReconcileStrategy::BestScore),
        }
    }

    /// How `alloc` stands against others of its number; `returning` = its node was silent.
    pub(super) fn rank(self, alloc: &Allocation, returning: bool) -> Rank {
        match self.strategy {
            ReconcileStrategy::KeepOriginal => Rank::Equal,
            ReconcileStrategy::KeepReplacement => Rank::Returning(returning),
            ReconcileStrategy::BestScore => Rank::Score(Reverse(score(alloc))),
            ReconcileStrategy::LongestRunning => Rank::Since(self.running_since(alloc)),
        }
    }

    /// Since when a main task runs. What is started anew does not run yet, whenever it did.
    fn running_since(self, alloc: &Allocation) -> UnixNanos {
        if alloc.client_status != ClientStatus::Running {
            return UnixNanos(i64::MAX);
        }
        let main = self.group.tasks.iter().filter(|it| it.lifecycle.is_none());
        let started = main.filter_map(|task| alloc.task_states.get(&task.name)?.started_at);
        started.min().unwrap_or(UnixNanos(i64::MAX))
    }
}

/// How well its node suited it when it was placed.
fn score(alloc: &Allocation) -> Score {
    let scores = &alloc.metrics.score_meta_data;
    let own = scores.iter().find(|score| score.node_id == alloc.node_id);
    Score(own.map_or(0.0, |score| score.norm_score))
}
