//! Reconciliation of one task group of a service or batch job.
//!
//! ```text
//!   every existing allocation --classify--> over | lost | unknown | failed | leaving | standing
//!   lost, unknown, failed --whoever has their number--> nothing | counts | a gap to fill
//!   more than count --> failures make way, then doubles, then what does not run, then the rest
//!   standing --version--> same | in place | destructive (as many as the rollout allows now)
//!   fewer than count --> place, what takes the place of something first
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus};

use super::class::{Class, classify};
use super::condition::awaited;
use super::names::Names;
use super::sorted::{Doubles, Sorted, len};
use super::{Buckets, Difference, Subject, Wanted, difference_of};
use crate::place::Staying;
use crate::reschedule::Retry;
use crate::rollout::Rollout;

/// Sorts the group's allocations and says what is missing.
pub(crate) fn group(
    subject: &Subject<'_>,
    existing: &[Arc<Allocation>],
    rollout: &Rollout,
    staying: &mut Staying<'_, '_>,
) -> Buckets {
    let Subject {
        snapshot,
        job,
        group,
        eval,
        now,
    } = *subject;
    let mut sorted = Sorted::default();
    for alloc in existing {
        let mut class = classify(snapshot, job, group, alloc, now);
        if matches!(class, Class::Failed(_)) && rollout.gave_up_on(alloc) {
            class = Class::Failed(Retry::Never);
        }
        sorted.take(alloc, class, awaited(snapshot, alloc, eval));
    }
    let count = group.count();
    let mut held = sorted.numbers_held();
    sorted.count_silent(count, &mut held);
    sorted.let_failures_make_way(group, count, &mut held, now);
    sorted.replace_absent(&mut held);
    if rollout.is_halted() {
        sorted.replace_what_is_gone(job, existing);
    }
    sorted.stop_surplus(job, group, count, Doubles::of(rollout));
    let mut open = count
        .saturating_sub(sorted.counted)
        .saturating_sub(len(&sorted.standing));
    sorted.close_gaps(open);
    let Sorted {
        mut buckets,
        standing,
        gaps,
        ..
    } = sorted;
    open -= len(&gaps);
    if rollout.is_halted() {
        open = 0;
    }
    let falling: BTreeSet<AllocId> = buckets.disconnect.iter().map(|alloc| alloc.id).collect();
    let is_silent = |alloc: &Allocation| {
        alloc.client_status == ClientStatus::Unknown || falling.contains(&alloc.id)
    };
    // What takes a silent one's place is waited for from now on.
    let previous = gaps.iter().filter_map(|gap| gap.previous.as_deref());
    let replacing = previous.filter(|alloc| is_silent(alloc)).count();
    let limit = rollout.limit(job, group, existing, is_silent);
    let limit = limit.saturating_sub(replacing);
    update(subject, standing, limit, &mut buckets, staying);
    buckets.place.extend(gaps);
    let mut names = Names::new(&job.id, &group.name, numbers_in_use(existing, &buckets));
    buckets
        .place
        .extend((0..open).map(|_| Wanted::new(names.next())));
    buckets
}

/// The numbers of all that stand, were kept although they are over, wait for their next attempt, or
/// get a successor now.
fn numbers_in_use(existing: &[Arc<Allocation>], buckets: &Buckets) -> BTreeSet<u32> {
    let standing = existing.iter().filter(|alloc| !alloc.terminal());
    let waiting = buckets.reschedule_at.iter().map(|(alloc, _)| alloc);
    let replaced = buckets
        .place
        .iter()
        .filter_map(|wanted| wanted.previous.as_ref());
    standing
        .chain(&buckets.keep)
        .chain(waiting)
        .chain(replaced)
        .filter_map(|alloc| alloc.index())
        .collect()
}

/// Sorts what stands by what the job's version means for it; at most `limit` are replaced now.
fn update(
    subject: &Subject<'_>,
    standing: Vec<Arc<Allocation>>,
    mut limit: usize,
    buckets: &mut Buckets,
    staying: &mut Staying<'_, '_>,
) {
    let returning: BTreeSet<AllocId> = buckets.reconnect.iter().map(|alloc| alloc.id).collect();
    let stopped = buckets.stop.iter().map(|(alloc, _)| alloc);
    for gone in stopped.chain(&buckets.lost) {
        staying.gone(gone);
    }
    for alloc in standing {
        if returning.contains(&alloc.id) {
            continue;
        }
        let difference = difference_of(subject.snapshot, subject.job, &alloc);
        match difference {
            None => buckets.keep.push(alloc),
            Some(Difference::InPlace) if staying.may_stay(&alloc) => buckets.in_place.push(alloc),
            // What may not be here any more makes way as what is started anew.
            Some(_) if limit == 0 => buckets.later.push(alloc),
            Some(_) => {
                limit -= 1;
                buckets
                    .place
                    .push(Wanted::replacing(alloc.name.clone(), &alloc));
                buckets.destructive.push(alloc);
            }
        }
    }
}
