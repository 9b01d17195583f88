//! Reconciliation of one task group of a service or batch job, or of one side of it while
//! canaries run (`canary`).
//!
//! ```text
//!   every existing allocation --classify--> over | lost | unknown | ended | leaving | standing
//!   lost, unknown, ended --whoever has their number--> nothing | counts | a gap to fill
//!   two with one number --> one goes
//!   more than count --> what ended makes way, then what does not run, then the rest
//!   standing --version--> same | in place | destructive (as many as the rollout allows now)
//!   fewer than count --> place, what takes the place of something first
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus};

use super::class::{Class, classify};
use super::condition::awaited;
use super::lingering::{Lingering, Lingers};
use super::names::Names;
use super::sorted::{Sorted, len};
use super::{Buckets, Difference, Subject, Wanted, difference_of};
use crate::place::Staying;
use crate::reschedule::Retry;
use crate::rollout::Rollout;

/// Which of a group's allocations are reconciled together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// All of them.
    Whole,
    /// Those of the version that canaries run beside: none is changed.
    Older,
    /// The canaries.
    Canaries,
}

/// Allocations that are reconciled together.
#[derive(Debug)]
pub(super) struct Side {
    kind: Kind,
    /// How many of them there are to be.
    count: u32,
    /// The numbers that new ones take first.
    pub(super) numbers: Vec<u32>,
}

impl Side {
    pub(super) fn new(kind: Kind, count: u32) -> Self {
        Self {
            kind,
            count,
            numbers: Vec::new(),
        }
    }
}

/// Sorts the allocations of one side of a group and says what is missing.
pub(super) fn side(
    subject: &Subject<'_>,
    existing: &[Arc<Allocation>],
    rollout: &Rollout,
    side: &Side,
    staying: &mut Staying<'_, '_>,
) -> Buckets {
    let Subject {
        job, group, now, ..
    } = *subject;
    let (mut sorted, mut lingering) = sort(subject, existing, rollout);
    let count = side.count;
    // The older side is no part of the rollout that is halted.
    let is_halted = rollout.is_halted() && side.kind != Kind::Older;
    let mut held = sorted.numbers_held();
    sorted.count_silent(count, &mut held);
    sorted.let_ended_make_way(group, count, &mut held, now);
    sorted.replace_absent(&mut held);
    if is_halted || side.kind == Kind::Older {
        sorted.replace_what_is_gone(subject, existing);
    }
    let undecided = sorted.stop_surplus(subject, rollout, count);
    let mut open = count
        .saturating_sub(sorted.counted)
        .saturating_sub(len(&sorted.standing));
    sorted.close_gaps(open);
    let Sorted {
        mut buckets,
        standing,
        mut gaps,
        ..
    } = sorted;
    let open_gaps = len(&gaps);
    open -= open_gaps;
    if is_halted {
        open = 0;
    }
    let falling: BTreeSet<AllocId> = buckets.disconnect.iter().map(|alloc| alloc.id).collect();
    let is_silent = |alloc: &Allocation| {
        alloc.client_status == ClientStatus::Unknown
            || falling.contains(&alloc.id)
            || undecided.contains(&alloc.id)
    };
    lingering.stops(subject, buckets.stop.iter().map(|(alloc, _)| alloc));
    lingering.hold_back(&mut gaps);
    let numbers = numbers_in_use(existing, &buckets, &gaps);
    let placed = new_ones(subject, side, open, numbers, existing, &lingering);
    buckets.held_back = (open + open_gaps).saturating_sub(len(&placed) + len(&gaps));
    // What takes a silent one's place is waited for from now on, and what is to come after one that
    // may still run.
    let previous = gaps.iter().filter_map(|gap| gap.previous.as_deref());
    let mut waited_for = previous.filter(|alloc| is_silent(alloc)).count();
    let follows = |wanted: &&Wanted| group.lease_term().is_some() || wanted.previous.is_some();
    waited_for += placed.iter().filter(follows).count() + buckets.held_back as usize;
    let limit = match side.kind {
        Kind::Whole => rollout.limit(job, group, existing, is_silent),
        Kind::Older | Kind::Canaries => 0,
    };
    let limit = limit.saturating_sub(waited_for);
    update(subject, side, standing, limit, &mut buckets, staying);
    buckets.place.extend(gaps);
    buckets.place.extend(placed);
    buckets
}

/// Every allocation, by what it is.
fn sort(
    subject: &Subject<'_>,
    existing: &[Arc<Allocation>],
    rollout: &Rollout,
) -> (Sorted, Lingering) {
    let Subject {
        snapshot,
        job,
        group,
        now,
        ..
    } = *subject;
    let mut sorted = Sorted::default();
    let mut lingering = Lingering::of(subject);
    for alloc in existing {
        match lingering.take(subject, alloc) {
            Lingers::No => {}
            Lingers::IsAwaited => {
                sorted.buckets.ignore.push(Arc::clone(alloc));
                continue;
            }
            Lingers::LookAt(end) => {
                sorted.buckets.give_up_at.push((Arc::clone(alloc), end));
                continue;
            }
        }
        let mut class = classify(snapshot, job, group, alloc, now);
        if matches!(class, Class::Ended(_)) && rollout.gave_up_on(alloc) {
            class = Class::Ended(Retry::Never);
        }
        sorted.take(alloc, class, awaited(subject, alloc));
    }
    (sorted, lingering)
}

/// What is missing and takes nobody's place: `open` of them, as far as there are numbers that
/// nobody may still run with.
fn new_ones(
    subject: &Subject<'_>,
    side: &Side,
    open: u32,
    mut numbers: BTreeSet<u32>,
    existing: &[Arc<Allocation>],
    lingering: &Lingering,
) -> Vec<Wanted> {
    if open == 0 {
        return Vec::new();
    }
    let Subject { job, group, .. } = subject;
    numbers.extend(lingering.numbers());
    // A canary stands beside the allocation that has its number.
    let end = match side.kind {
        Kind::Whole | Kind::Older => lingering.below(side.count),
        Kind::Canaries => u32::MAX,
    };
    let mut names = Names::new(&job.id, &group.name, numbers);
    let mut first = side.numbers.iter();
    let predecessors = Lingering::predecessors(subject, existing);
    let wanted = (0..open).map_while(|_| {
        let number = first.find(|number| names.take(**number)).copied();
        let number = number.or_else(|| names.next_below(end))?;
        let new = Wanted::new(names.name(number));
        Some(match predecessors.get(&number) {
            Some(last) => Wanted {
                elsewhere: last.desired_transition.moves_elsewhere(),
                previous: Some(Arc::clone(last)),
                ..new
            },
            None => new,
        })
    });
    wanted.collect()
}

/// The numbers of all that stand, were kept although they are over, wait for their next attempt, or
/// get a successor now.
fn numbers_in_use(
    existing: &[Arc<Allocation>],
    buckets: &Buckets,
    gaps: &[Wanted],
) -> BTreeSet<u32> {
    let standing = existing.iter().filter(|alloc| !alloc.terminal());
    let waiting = buckets.reschedule_at.iter().map(|(alloc, _)| alloc);
    let replaced = gaps.iter().filter_map(|wanted| wanted.previous.as_ref());
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
    side: &Side,
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
        if side.kind == Kind::Older {
            buckets.keep.push(alloc);
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
