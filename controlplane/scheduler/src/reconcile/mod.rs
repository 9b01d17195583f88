//! Reconciliation: what exists against what is wanted. Every existing allocation lands in exactly
//! one bucket; what is to be placed follows from the buckets.

mod canary;
mod class;
mod condition;
mod difference;
mod group;
mod lingering;
mod names;
mod pace;
mod sorted;
mod surplus;
mod system;
mod winner;

use std::sync::Arc;

use controlplane_state::{LeaseEnd, Snapshot};
use protocol_model::{Allocation, EvalId, Job, RescheduleTracker, TaskGroup, UnixNanos};

pub(crate) use self::canary::{Older, group};
pub(crate) use self::condition::{Taint, tolerated};
use self::difference::{Difference, difference_of};
pub(crate) use self::lingering::ends_first;
pub(crate) use self::system::{Place, system};

/// Stops of surplus allocations.
const NOT_NEEDED: &str = "alloc not needed due to job update";

/// Stops of allocations that a drain, or an operator, wants elsewhere, or nowhere.
const MIGRATING: &str = "alloc is being migrated";

/// What is reconciled: one group of a job, for an evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) job: &'a Job,
    pub(crate) group: &'a TaskGroup,
    pub(crate) eval: EvalId,
    pub(crate) now: UnixNanos,
}

/// A placement that is wanted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Wanted {
    /// The allocation's name.
    pub(crate) name: String,
    /// The allocation that it takes the place of.
    pub(crate) previous: Option<Arc<Allocation>>,
    /// Earlier attempts at rescheduling.
    pub(crate) tracker: Option<RescheduleTracker>,
    /// The previous one failed on its node: anywhere else is better.
    pub(crate) penalized: bool,
    /// The previous one's node did not accept it: there it is no use.
    pub(crate) elsewhere: bool,
    /// A system job's allocation belongs on this node.
    pub(crate) node: Option<protocol_model::NodeId>,
    /// It is a canary.
    pub(crate) canary: bool,
    /// The version that it is placed in; the job's present one where there is none.
    pub(crate) older: Option<Older>,
}

impl Wanted {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            previous: None,
            tracker: None,
            penalized: false,
            elsewhere: false,
            node: None,
            canary: false,
            older: None,
        }
    }

    pub(crate) fn replacing(name: String, previous: &Arc<Allocation>) -> Self {
        Self {
            previous: Some(Arc::clone(previous)),
            ..Self::new(name)
        }
    }
}

/// What to do with one task group, bucket by bucket.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    /// Placements to make.
    pub(crate) place: Vec<Wanted>,
    /// Stop; the reason is for people.
    pub(crate) stop: Vec<(Arc<Allocation>, &'static str)>,
    /// Their node is gone: they are lost.
    pub(crate) lost: Vec<Arc<Allocation>>,
    /// Their node is silent and they may return: unknown.
    pub(crate) disconnect: Vec<Arc<Allocation>>,
    /// Their node is back, and they stay.
    pub(crate) reconnect: Vec<Arc<Allocation>>,
    /// Another job version, without a restart.
    pub(crate) in_place: Vec<Arc<Allocation>>,
    /// Another job version, by stop and placement. The placement is among `place`.
    pub(crate) destructive: Vec<Arc<Allocation>>,
    /// Another job version, later: the rollout's limit is reached.
    pub(crate) later: Vec<Arc<Allocation>>,
    /// When more of those may be replaced, where it is time that tells.
    pub(crate) later_at: Option<UnixNanos>,
    /// Leave their node. The placement is among `place`.
    pub(crate) migrate: Vec<Arc<Allocation>>,
    /// Ended, and placed anew now. The placement is among `place`.
    pub(crate) reschedule: Vec<Arc<Allocation>>,
    /// Ended, and placed anew at that time.
    pub(crate) reschedule_at: Vec<(Arc<Allocation>, UnixNanos)>,
    /// Silent, and given up at that time, at which nobody is due yet to look at them.
    pub(crate) give_up_at: Vec<(Arc<Allocation>, UnixNanos)>,
    /// Stay as they are, and count.
    pub(crate) keep: Vec<Arc<Allocation>>,
    /// Are over and do not count.
    pub(crate) ignore: Vec<Arc<Allocation>>,
    /// Not a bucket: silent ones of the buckets above that count, since nobody takes their place.
    pub(crate) waited_for: Vec<Arc<Allocation>>,
    /// How many are not placed because one of their number may still run.
    pub(crate) held_back: u32,
    /// How many canaries the group wants, while they are not promoted.
    pub(crate) canaries: Option<u32>,
}

impl Buckets {
    /// Whether somebody who is back runs another version than `job`'s: that it is back is settled
    /// first, what its version means for it is looked at again right after.
    pub(crate) fn returns_outdated(&self, job: &Job) -> bool {
        self.reconnect.iter().any(|alloc| !runs_version(alloc, job))
    }

    /// Whether nothing is to be done for `job`, now or later.
    pub(crate) fn is_quiet(&self, job: &Job) -> bool {
        !self.returns_outdated(job)
            && self.held_back == 0
            && self.place.is_empty()
            && self.in_place.is_empty()
            && self.destructive.is_empty()
            && self.later.is_empty()
            && self.migrate.is_empty()
            && self.reschedule_at.is_empty()
    }

    /// Takes in the other side of a group.
    fn merge(&mut self, other: Self) {
        let Self {
            place,
            stop,
            lost,
            disconnect,
            reconnect,
            in_place,
            destructive,
            later,
            later_at,
            migrate,
            reschedule,
            reschedule_at,
            give_up_at,
            keep,
            ignore,
            waited_for,
            held_back,
            canaries,
        } = other;
        self.place.extend(place);
        self.stop.extend(stop);
        self.lost.extend(lost);
        self.disconnect.extend(disconnect);
        self.reconnect.extend(reconnect);
        self.in_place.extend(in_place);
        self.destructive.extend(destructive);
        self.later.extend(later);
        self.later_at = self.later_at.or(later_at);
        self.migrate.extend(migrate);
        self.reschedule.extend(reschedule);
        self.reschedule_at.extend(reschedule_at);
        self.give_up_at.extend(give_up_at);
        self.keep.extend(keep);
        self.ignore.extend(ignore);
        self.waited_for.extend(waited_for);
        self.held_back += held_back;
        self.canaries = self.canaries.or(canaries);
    }

    /// How many allocations the buckets hold: each exactly once.
    pub(crate) fn len(&self) -> usize {
        self.stop.len()
            + self.lost.len()
            + self.disconnect.len()
            + self.reconnect.len()
            + self.in_place.len()
            + self.destructive.len()
            + self.later.len()
            + self.migrate.len()
            + self.reschedule.len()
            + self.reschedule_at.len()
            + self.give_up_at.len()
            + self.keep.len()
            + self.ignore.len()
    }
}

/// When one whose silence is noted at `now` is given up; `None` where its group waits for as long
/// as it takes. A lease counts from its node's silence, which may be older than that.
pub(crate) fn given_up_at(
    snapshot: &Snapshot,
    group: &TaskGroup,
    alloc: &Allocation,
    now: UnixNanos,
) -> Option<UnixNanos> {
    let wait = tolerated(snapshot, group, alloc)?;
    match snapshot.lease_end(alloc) {
        LeaseEnd::At(end) => Some(end),
        LeaseEnd::NoLease | LeaseEnd::Extended => Some(now.saturating_add(wait)),
    }
}

/// Whether an allocation runs this very version of this very job.
fn runs_version(alloc: &Allocation, job: &Job) -> bool {
    alloc.job_create_index == job.create_index && alloc.job_version == job.version
}
