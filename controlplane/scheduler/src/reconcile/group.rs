//! Reconciliation of one task group of a service or batch job.
//!
//! ```text
//!   every existing allocation --classify--> over | lost | unknown | failed | leaving | standing
//!   standing --version--> same | in place | destructive (as many as the rollout allows now)
//!   standing above count --> stop          below count --> place
//! ```

use std::sync::Arc;

use controlplane_state::Snapshot;
use protocol_model::{
    Allocation, ClientStatus, EvalId, EvalStatus, Job, JobType, TaskGroup, UnixNanos,
};

use super::names::Names;
use super::{Buckets, Difference, Taint, Wanted, difference, window_end};
use crate::reschedule::{self, Retry};
use crate::rollout::Rollout;

/// Stops of surplus allocations.
pub(super) const NOT_NEEDED: &str = "alloc not needed due to job update";

/// Sorts the group's allocations and says what is missing.
pub(crate) fn group(
    snapshot: &Snapshot,
    job: &Job,
    group: &TaskGroup,
    existing: &[Arc<Allocation>],
    rollout: &Rollout,
    eval: EvalId,
    now: UnixNanos,
) -> Buckets {
    let mut sorted = Sorted::default();
    for alloc in existing {
        let mut class = classify(snapshot, job, group, alloc, now);
        if matches!(class, Class::Failed(_)) && rollout.gave_up_on(alloc) {
            class = Class::Failed(Retry::Never);
        }
        sorted.take(group, alloc, class, awaited(snapshot, alloc, eval), now);
    }
    let Sorted {
        mut buckets,
        mut standing,
        counted,
        mut gaps,
    } = sorted;
    let count = group.count();
    stop_surplus(&mut buckets, &mut standing, count.saturating_sub(counted));
    let mut open = count.saturating_sub(counted).saturating_sub(len(&standing));
    gaps.truncate(open as usize);
    open -= len(&gaps);
    if rollout.is_halted() {
        open = 0;
    }
    let limit = rollout.limit(job, group, existing);
    update(snapshot, job, standing, limit, &mut buckets);
    let occupied = existing
        .iter()
        .map(Arc::as_ref)
        .filter(|alloc| !alloc.terminal());
    let kept = buckets.keep.iter().map(Arc::as_ref);
    let mut names = Names::new(&job.id, &group.name, occupied.chain(kept));
    buckets.place.extend(gaps);
    buckets
        .place
        .extend((0..open).map(|_| Wanted::new(names.next())));
    buckets
}

/// Whether an evaluation that was made to look at `alloc` again is still to come. The one that is
/// being decided is not: a wall clock that was set back makes it come before its time, and then
/// another one is owed.
fn awaited(snapshot: &Snapshot, alloc: &Allocation, deciding: EvalId) -> bool {
    alloc
        .followup_eval_id
        .filter(|id| *id != deciding)
        .and_then(|id| snapshot.eval(id))
        .is_some_and(|eval| eval.status == EvalStatus::Pending)
}

/// What one allocation is.
#[derive(Clone, Copy)]
enum Class {
    /// It does not matter any more.
    Over,
    /// A batch allocation that ran to a good end: it counts, and is never replaced.
    Done,
    /// Its node is gone.
    Lost { replace: bool },
    /// Its node just fell silent, and it may return.
    Disconnecting { replace: bool },
    /// Its node is silent still.
    Unknown {
        replaced: bool,
        /// When it is given up, if it ever is.
        until: Option<UnixNanos>,
    },
    /// Its node is back.
    Reconnecting,
    /// It has to leave its node.
    Leaving,
    /// It failed.
    Failed(Retry),
    /// It stands.
    Standing,
}

/// Allocations by what they are, before the count is looked at.
#[derive(Default)]
struct Sorted {
    buckets: Buckets,
    /// They stand, and the count decides about them.
    standing: Vec<Arc<Allocation>>,
    /// Others that take part in the count: done, tried again later, or never.
    counted: u32,
    /// Placements that take the place of something.
    gaps: Vec<Wanted>,
}

impl Sorted {
    /// `awaited`: an evaluation is due that will look at it again.
    fn take(
        &mut self,
        group: &TaskGroup,
        alloc: &Arc<Allocation>,
        class: Class,
        awaited: bool,
        now: UnixNanos,
    ) {
        let buckets = &mut self.buckets;
        let shared = Arc::clone(alloc);
        let gap = || Wanted::replacing(alloc.name.clone(), alloc);
        match class {
            Class::Over => buckets.ignore.push(shared),
            Class::Done | Class::Failed(Retry::Never) => {
                self.counted += 1;
                buckets.keep.push(shared);
            }
            Class::Lost { replace } => {
                buckets.lost.push(shared);
                self.gaps.extend(replace.then(gap));
            }
            Class::Disconnecting { replace } => {
                buckets.disconnect.push(shared);
                self.gaps.extend(replace.then(gap));
                self.counted += u32::from(!replace);
            }
            Class::Unknown { replaced, until } => {
                self.counted += u32::from(!replaced);
                match until {
                    Some(at) if !awaited => buckets.give_up_at.push((shared, at)),
                    Some(_) | None => buckets.keep.push(shared),
                }
            }
            Class::Reconnecting => {
                buckets.reconnect.push(Arc::clone(alloc));
                self.standing.push(shared);
            }
            Class::Leaving => {
                buckets.migrate.push(shared);
                self.gaps.push(gap());
            }
            Class::Failed(Retry::Now) => {
                buckets.reschedule.push(shared);
                self.gaps.push(retried(group, alloc, now));
            }
            Class::Failed(Retry::At(at)) => {
                self.counted += 1;
                if awaited {
                    buckets.keep.push(shared);
                } else {
                    buckets.reschedule_at.push((shared, at));
                }
            }
            Class::Standing => self.standing.push(shared),
        }
    }
}

fn classify(
    snapshot: &Snapshot,
    job: &Job,
    group: &TaskGroup,
    alloc: &Arc<Allocation>,
    now: UnixNanos,
) -> Class {
    let batch = job.job_type == JobType::Batch;
    let this_job = alloc.job_create_index == job.create_index;
    if batch && this_job && alloc.ran_successfully() && alloc.client_terminal() {
        // Done for this version; another version runs it again.
        let same =
            alloc.job_version == job.version || difference_of(snapshot, job, alloc).is_none();
        return if same && !alloc.server_terminal() {
            Class::Done
        } else {
            Class::Over
        };
    }
    if alloc.server_terminal() {
        return Class::Over;
    }
    if alloc.client_status == ClientStatus::Failed {
        // A failure of an older version says nothing about this one.
        if alloc.next_allocation.is_some() || (alloc.job_version != job.version && !batch) {
            return Class::Over;
        }
        let policy = group.reschedule_policy.clone().unwrap_or_default();
        return Class::Failed(reschedule::retry(alloc, &policy, now));
    }
    if alloc.client_terminal() {
        return Class::Over;
    }
    on_node(snapshot, group, alloc, now)
}

/// What the condition of its node makes of an allocation that neither side is done with.
fn on_node(
    snapshot: &Snapshot,
    group: &TaskGroup,
    alloc: &Arc<Allocation>,
    now: UnixNanos,
) -> Class {
    let window = group.disconnect_window();
    let replace = group.replaces_on_disconnect();
    let unknown = alloc.client_status == ClientStatus::Unknown;
    if unknown && window_end(alloc, window).is_some_and(|end| end <= now) {
        return Class::Lost {
            replace: alloc.next_allocation.is_none(),
        };
    }
    match Taint::on(snapshot, alloc) {
        Taint::Gone if !replace && alloc.client_status == ClientStatus::Running => {
            Class::Disconnecting { replace: false }
        }
        Taint::Gone if !replace && unknown => Class::Unknown {
            replaced: false,
            until: window_end(alloc, window),
        },
        Taint::Gone => Class::Lost {
            replace: alloc.next_allocation.is_none(),
        },
        Taint::Disconnected if unknown => Class::Unknown {
            replaced: alloc.next_allocation.is_some(),
            until: window_end(alloc, window),
        },
        Taint::Disconnected if window.is_none() || alloc.client_status == ClientStatus::Pending => {
            Class::Lost { replace: true }
        }
        Taint::Disconnected => Class::Disconnecting { replace },
        Taint::Draining => Class::Leaving,
        Taint::None if alloc.desired_transition.should_migrate() => Class::Leaving,
        Taint::None if alloc.needs_reconnect() => Class::Reconnecting,
        Taint::None => Class::Standing,
    }
}

fn retried(group: &TaskGroup, alloc: &Arc<Allocation>, now: UnixNanos) -> Wanted {
    let policy = group.reschedule_policy.clone().unwrap_or_default();
    Wanted {
        tracker: Some(reschedule::next_tracker(alloc, &policy, now)),
        penalized: true,
        ..Wanted::replacing(alloc.name.clone(), alloc)
    }
}

/// Stops what stands above `count`: those that do not run first, then the highest numbers, then the
/// newest. A reconnected original stays before its replacement, which has the same number and is
/// newer.
fn stop_surplus(buckets: &mut Buckets, standing: &mut Vec<Arc<Allocation>>, count: u32) {
    standing.sort_by_key(|alloc| {
        (
            alloc.client_status != ClientStatus::Running,
            alloc.index(),
            alloc.create_index,
            alloc.id,
        )
    });
    while len(standing) > count {
        let Some(surplus) = standing.pop() else {
            return;
        };
        buckets.reconnect.retain(|alloc| alloc.id != surplus.id);
        buckets.stop.push((surplus, NOT_NEEDED));
    }
}

/// Sorts what stands by what the job's version means for it; at most `limit` are replaced now.
fn update(
    snapshot: &Snapshot,
    job: &Job,
    standing: Vec<Arc<Allocation>>,
    mut limit: usize,
    buckets: &mut Buckets,
) {
    for alloc in standing {
        if buckets.reconnect.iter().any(|known| known.id == alloc.id) {
            continue;
        }
        match difference_of(snapshot, job, &alloc).unwrap_or(Difference::None) {
            Difference::None => buckets.keep.push(alloc),
            Difference::InPlace => buckets.in_place.push(alloc),
            Difference::Destructive if limit == 0 => buckets.later.push(alloc),
            Difference::Destructive => {
                limit -= 1;
                buckets
                    .place
                    .push(Wanted::replacing(alloc.name.clone(), &alloc));
                buckets.destructive.push(alloc);
            }
        }
    }
}

/// What this job's version changes for `alloc`; nothing where it runs that very specification.
fn difference_of(snapshot: &Snapshot, job: &Job, alloc: &Allocation) -> Option<Difference> {
    let this_job = alloc.job_create_index == job.create_index;
    if this_job && alloc.job_version == job.version {
        return None;
    }
    let Some(old) = snapshot.spec(alloc.spec) else {
        return Some(Difference::Destructive);
    };
    match difference(old, job, &alloc.task_group) {
        // The same specification under another version: the number has to follow.
        Difference::None => Some(Difference::InPlace),
        other @ (Difference::InPlace | Difference::Destructive) => Some(other),
    }
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
