//! Reconciliation of system and sysbatch jobs: one allocation of each group on every node that may
//! have it. A silent node keeps its own for as long as the group tolerates; nobody takes its place
//! elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::Snapshot;
use protocol_model::{Allocation, ClientStatus, Job, JobType, NodeId, RescheduleTracker};

use super::condition::{Condition, awaited, condition};
use super::pace::Pace;
use super::{
    Buckets, Difference, MIGRATING, NOT_NEEDED, Subject, Wanted, difference_of, runs_version,
};
use crate::reschedule::{self, Retry};

/// Stops of allocations on nodes that may not have them any more.
const NOT_HERE: &str = "alloc not needed as node is not feasible";

/// What a node of the job's pool and datacenters is to a group that runs on every one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// One may be placed there now.
    Open,
    /// One may be there, and none placed now.
    Closed,
    /// It is not feasible. What runs there with this very version goes on: a driver that is ill for
    /// a minute, or a fact that changed, ends nothing (as in Nomad). Another version is not
    /// started.
    Unsuited,
}

/// Sorts the group's allocations and says on which of the job's nodes, `places`, one is missing.
/// `makes_room`: whether a successor fits where an allocation is, once that one is gone.
pub(crate) fn system(
    subject: &Subject<'_>,
    existing: &[Arc<Allocation>],
    places: &BTreeMap<NodeId, Place>,
    makes_room: impl Fn(&Allocation) -> bool,
) -> Buckets {
    let Subject {
        snapshot,
        job,
        group,
        ..
    } = *subject;
    let nowhere = BTreeMap::new();
    // As many on every node: one, or none.
    let (places, not_here) = match group.count() {
        0 => (&nowhere, NOT_NEEDED),
        _ => (places, NOT_HERE),
    };
    let mut sorting = Sorting {
        snapshot,
        job,
        places,
        not_here,
        covered: BTreeSet::new(),
        results: BTreeSet::new(),
        outdated: Vec::new(),
        ended: BTreeMap::new(),
        buckets: Buckets::default(),
    };
    sorting.sort(subject, existing);
    let retried = sorting.retried();
    let again = sorting.place_ended_anew(subject);
    let Sorting {
        covered,
        mut outdated,
        mut buckets,
        ..
    } = sorting;
    let open = |node: &NodeId| places.get(node) == Some(&Place::Open);
    let can = |alloc: &Allocation| open(&alloc.node_id) && makes_room(alloc);
    hold_back(
        subject,
        existing,
        &mut outdated,
        &retried,
        can,
        &mut buckets,
    );
    for alloc in outdated {
        buckets.place.push(Wanted {
            node: Some(alloc.node_id),
            ..Wanted::replacing(alloc.name.clone(), &alloc)
        });
        buckets.destructive.push(alloc);
    }
    let name = Allocation::name_of(&job.id, &group.name, 0);
    for (node, place) in places {
        if *place == Place::Open && !covered.contains(node) {
            buckets.place.push(Wanted {
                node: Some(*node),
                previous: again.get(node).map(|(previous, _)| Arc::clone(previous)),
                tracker: again.get(node).map(|(_, tracker)| tracker.clone()),
                ..Wanted::new(name.clone())
            });
        }
    }
    buckets
}

/// What is outdated and has to wait for a slot of the group's pace. Those go first that `can` be
/// replaced now: a node without room must not hold all others up. `retried`: where this version
/// ended.
fn hold_back(
    subject: &Subject<'_>,
    existing: &[Arc<Allocation>],
    outdated: &mut Vec<Arc<Allocation>>,
    retried: &BTreeSet<NodeId>,
    can: impl Fn(&Allocation) -> bool,
    buckets: &mut Buckets,
) {
    let Some(pace) = Pace::of(subject.group).filter(|_| !outdated.is_empty()) else {
        return;
    };
    outdated.sort_by_cached_key(|alloc| (!can(alloc), alloc.node_id));
    let slots = pace.slots(subject.job, existing, retried, subject.now);
    buckets.later = outdated.split_off(outdated.len().min(slots.free));
    buckets.later_at = Some(slots.again_at);
}

/// What ended on a node, and whether an evaluation is due that will look at it again.
type Ended = (Arc<Allocation>, bool);

struct Sorting<'a> {
    snapshot: &'a Snapshot,
    job: &'a Job,
    places: &'a BTreeMap<NodeId, Place>,
    /// Why those on other nodes go.
    not_here: &'static str,
    /// Nodes that have theirs.
    covered: BTreeSet<NodeId>,
    /// Nodes on which a sysbatch job has run.
    results: BTreeSet<NodeId>,
    /// They run a version that tasks feel the difference to.
    outdated: Vec<Arc<Allocation>>,
    /// The newest of this very version that ended and is wanted still, by node: another one takes
    /// its place. They are in no bucket yet.
    ended: BTreeMap<NodeId, Ended>,
    buckets: Buckets,
}

impl Sorting<'_> {
    fn sort(&mut self, subject: &Subject<'_>, existing: &[Arc<Allocation>]) {
        // Newest first: of two on one node the older one goes.
        let mut sorted: Vec<&Arc<Allocation>> = existing.iter().collect();
        sorted.sort_by_key(|alloc| std::cmp::Reverse((alloc.create_index, alloc.id)));
        for alloc in sorted {
            let is_newest = is_result(subject.job, alloc) && self.results.insert(alloc.node_id);
            if is_newest && counts(subject.snapshot, subject.job, alloc) {
                self.covered.insert(alloc.node_id);
                let shared = Arc::clone(alloc);
                if alloc.terminal() {
                    self.buckets.keep.push(shared);
                } else {
                    self.buckets.stop.push((shared, MIGRATING));
                }
            } else if alloc.terminal() {
                self.is_over(alloc, awaited(subject, alloc));
            } else {
                let condition = condition(subject.snapshot, subject.group, alloc, subject.now);
                self.take(alloc, condition, awaited(subject, alloc));
            }
        }
    }

    fn is_over(&mut self, alloc: &Arc<Allocation>, awaited: bool) {
        let wanted = alloc.client_status != ClientStatus::Lost
            && !alloc.server_terminal()
            && alloc.next_allocation.is_none()
            && runs_version(alloc, self.job);
        if wanted && !self.ended.contains_key(&alloc.node_id) {
            let ended = (Arc::clone(alloc), awaited);
            self.ended.insert(alloc.node_id, ended);
        } else {
            self.buckets.ignore.push(Arc::clone(alloc));
        }
    }

    /// The nodes on which this version ended, may be placed anew, and has nothing that stands.
    fn retried(&self) -> BTreeSet<NodeId> {
        let open = |node: &&NodeId| {
            self.places.get(node) == Some(&Place::Open) && !self.covered.contains(node)
        };
        self.ended.keys().filter(open).copied().collect()
    }

    /// Puts what ended into its buckets, and says what is followed now. The node of one that has to
    /// wait counts as covered.
    fn place_ended_anew(
        &mut self,
        subject: &Subject<'_>,
    ) -> BTreeMap<NodeId, (Arc<Allocation>, RescheduleTracker)> {
        let retried = self.retried();
        let mut now = BTreeMap::new();
        for (node, (alloc, awaited)) in std::mem::take(&mut self.ended) {
            if !retried.contains(&node) {
                self.buckets.ignore.push(alloc);
                continue;
            }
            match reschedule::retry(subject.group, &alloc, subject.now) {
                Retry::Now => {
                    let tracker = reschedule::next_tracker(subject.group, &alloc, subject.now);
                    now.insert(node, (Arc::clone(&alloc), tracker));
                    self.buckets.ignore.push(alloc);
                }
                Retry::At(at) if !awaited => {
                    self.covered.insert(node);
                    self.buckets.reschedule_at.push((alloc, at));
                }
                Retry::At(_) | Retry::Never => {
                    self.covered.insert(node);
                    self.buckets.keep.push(alloc);
                }
            }
        }
        now
    }

    /// `awaited`: an evaluation is due that will look at it again.
    fn take(&mut self, alloc: &Arc<Allocation>, condition: Condition, awaited: bool) {
        let shared = Arc::clone(alloc);
        match condition {
            Condition::Lost => self.buckets.lost.push(shared),
            Condition::Disconnecting(_) => {
                self.covered.insert(alloc.node_id);
                self.buckets.disconnect.push(shared);
            }
            Condition::Unknown { silence: _, until } => {
                self.covered.insert(alloc.node_id);
                match until {
                    Some(at) if !awaited => self.buckets.give_up_at.push((shared, at)),
                    Some(_) | None => self.buckets.keep.push(shared),
                }
            }
            Condition::Migrating => self.buckets.stop.push((shared, MIGRATING)),
            Condition::Reconnecting | Condition::Standing => self.stands(shared),
        }
    }

    fn stands(&mut self, alloc: Arc<Allocation>) {
        let twin = !self.covered.insert(alloc.node_id);
        let may_stay = match self.places.get(&alloc.node_id) {
            Some(Place::Open | Place::Closed) => true,
            Some(Place::Unsuited) => runs_version(&alloc, self.job),
            None => false,
        };
        if twin || !may_stay {
            return self.buckets.stop.push((alloc, self.not_here));
        }
        if alloc.needs_reconnect() {
            return self.buckets.reconnect.push(alloc);
        }
        match difference_of(self.snapshot, self.job, &alloc) {
            None => self.buckets.keep.push(alloc),
            Some(Difference::InPlace) => self.buckets.in_place.push(alloc),
            Some(Difference::Destructive) => self.outdated.push(alloc),
        }
    }
}

/// Whether an allocation is what a sysbatch job has run on a node: to its end, until it failed (it
/// is not tried on the same node again), or until a drain ended it. Another job of that name does
/// not count. The newest of a node decides whether it has run there.
fn is_result(job: &Job, alloc: &Allocation) -> bool {
    let has_run = !alloc.server_terminal()
        && alloc.client_terminal()
        && alloc.client_status != ClientStatus::Lost;
    job.job_type == JobType::Sysbatch
        && alloc.job_create_index == job.create_index
        && (has_run || alloc.desired_transition.ends_here())
}

/// Whether a result counts for this version: for the one that it ran, and for one of which tasks
/// would not feel a difference.
fn counts(snapshot: &Snapshot, job: &Job, alloc: &Allocation) -> bool {
    difference_of(snapshot, job, alloc) != Some(Difference::Destructive)
}
