//! The scheduler: a snapshot and an evaluation in, a complete decision out.
//!
//! [`schedule`] is a pure function. It looks at every eligible node (an exact scan of thousands
//! takes microseconds), explains what it filtered and why, and leaves nothing to be chosen later:
//! ids and ports are in the decision, drawn from the caller's seed. Equal inputs give equal
//! decisions.
//!
//! The phases, in the order of `decide.rs`:
//!
//! 1. `reconcile`: existing allocations against what is wanted, sorted into named buckets.
//! 2. `feasible`: may this group run on this node, asked once per class of nodes.
//! 3. `rank`: how good is the node; the mean of named components, ties broken by the seed.
//! 4. fit: `controlplane_state::fit`, the same function that the plan check uses.
//! 5. preempt: where a placement fits nowhere, less important allocations that make room for it.
//! 6. write down: placements, stops, updates, later evaluations, the blocked one, and the rollout's
//!    beginning or end (`rollout`).
//!
//! [`schedule_concurrent`] takes into account other decisions that the snapshot does not show yet
//! ([`Concurrency`]).
//! [`Scratch`] is what a thread keeps between calls to be faster; it never changes a result.

#![warn(clippy::wildcard_enum_match_arm)]

mod ask;
mod concurrency;
mod decide;
mod explain;
mod feasible;
mod ids;
mod later;
mod memory;
mod place;
mod preempt;
mod rank;
mod reconcile;
mod reschedule;
mod rollout;
mod scratch;
mod spread;

use std::collections::BTreeMap;

use controlplane_state::Snapshot;
use controlplane_state::command::PlanApply;
use protocol_model::{AllocMetric, Evaluation, UnixNanos};

pub use concurrency::{Concurrency, Lane, Lanes};
pub use explain::{GroupExplanation, MISSES_MAX, Miss, explain};
pub use ids::Seeded;
pub use memory::memory_warnings;
pub use scratch::Scratch;
pub use spread::spread_warnings;

/// What is to be done for one evaluation.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The command, the ended evaluation and its followers included.
    pub plan: PlanApply,
    /// Per task group, what changes: for `plan`.
    pub groups: BTreeMap<String, GroupReport>,
    /// Per task group, why not everything could be placed.
    pub failed: BTreeMap<String, AllocMetric>,
    /// Whether more could be placed if plans in flight took nothing. The evaluation is then decided
    /// again when one of them is over: it may take less than it asked for.
    pub crowded_out: bool,
}

impl Decision {
    /// How many placements found no node.
    fn unplaced(&self) -> u64 {
        let groups = self.failed.values();
        groups.map(|metric| 1 + metric.coalesced_failures).sum()
    }

    /// Whether anything of the job's allocations changes.
    pub fn changes_something(&self) -> bool {
        !(self.plan.placed.is_empty()
            && self.plan.updated.is_empty()
            && self.plan.changed.is_empty()
            && self.plan.preempted.is_empty())
    }
}

/// How many of a group's allocations do what, in the words of `plan`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupReport {
    /// New ones, canaries not counted.
    pub place: u64,
    /// New ones of a version that is tried first.
    pub canary: u64,
    /// Moved to another node.
    pub migrate: u64,
    /// Stopped.
    pub stop: u64,
    /// Updated without a restart.
    pub in_place: u64,
    /// Updated by replacing.
    pub destructive: u64,
    /// Left as they are; what is over is not counted.
    pub ignore: u64,
    /// Placed anew after a failure or another end, now.
    pub reschedule_now: u64,
    /// Placed anew after a failure or another end, later.
    pub reschedule_later: u64,
    /// Their node is silent.
    pub disconnect: u64,
    /// Their node is back.
    pub reconnect: u64,
    /// Allocations of other jobs that are evicted for placements.
    pub preemptions: u64,
}

impl GroupReport {
    fn of(buckets: &reconcile::Buckets) -> Self {
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let replaced = buckets.destructive.len() + buckets.migrate.len() + buckets.reschedule.len();
        let new = buckets.place.iter().filter(|wanted| wanted.canary);
        let canaries = new.filter(|wanted| wanted.previous.is_none()).count();
        Self {
            place: count(buckets.place.len().saturating_sub(replaced + canaries)),
            canary: count(canaries),
            migrate: count(buckets.migrate.len()),
            stop: count(buckets.stop.len() + buckets.lost.len()),
            in_place: count(buckets.in_place.len()),
            destructive: count(buckets.destructive.len()),
            ignore: count(buckets.keep.len() + buckets.later.len() + buckets.give_up_at.len()),
            reschedule_now: count(buckets.reschedule.len()),
            reschedule_later: count(buckets.reschedule_at.len()),
            disconnect: count(buckets.disconnect.len()),
            reconnect: count(buckets.reconnect.len()),
            preemptions: 0,
        }
    }
}

/// Decides what to do for `eval` on `snapshot`, without other decisions. `seed` is drawn by the
/// caller, once per call.
pub fn schedule(
    snapshot: &Snapshot,
    eval: &Evaluation,
    seed: [u8; 16],
    scratch: &mut Scratch,
    now: UnixNanos,
) -> Decision {
    schedule_concurrent(snapshot, &Concurrency::NONE, eval, seed, scratch, now)
}

/// As [`schedule`], while other decisions are made and committed.
pub fn schedule_concurrent(
    snapshot: &Snapshot,
    concurrency: &Concurrency,
    eval: &Evaluation,
    seed: [u8; 16],
    scratch: &mut Scratch,
    now: UnixNanos,
) -> Decision {
    let decision = decide::Deciding::new(snapshot, concurrency, eval, seed, scratch, now).run();
    if concurrency.planned.is_empty() || decision.failed.is_empty() {
        return decision;
    }
    let alone = decide::Deciding::new(snapshot, &Concurrency::NONE, eval, seed, scratch, now).run();
    Decision {
        crowded_out: alone.unplaced() < decision.unplaced(),
        ..decision
    }
}
