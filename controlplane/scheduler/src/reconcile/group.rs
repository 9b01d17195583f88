//! Reconciliation of one task group of a service or batch job.
//!
//! ```text
//!   every existing allocation --classify--> over | lost | unknown | failed | leaving | standing
//!   more than count --> failures make way, then doubles, then what does not run, then the rest
//!   standing --version--> same | in place | destructive (as many as the rollout allows now)
//!   fewer than count --> place, what takes the place of something first
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::left_a_gap;
use protocol_model::{AllocId, Allocation, ClientStatus, Job, TaskGroup, UnixNanos};

use super::class::{Class, classify};
use super::condition::awaited;
use super::names::Names;
use super::winner::Winner;
use super::{Buckets, Difference, Subject, Wanted, difference_of, runs_version};
use crate::place::Staying;
use crate::reschedule::{self, Retry};
use crate::rollout::Rollout;

/// Stops of surplus allocations.
pub(super) const NOT_NEEDED: &str = "alloc not needed due to job update";

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
        sorted.take(group, alloc, class, awaited(snapshot, alloc, eval), now);
    }
    let count = group.count();
    sorted.let_failures_make_way(count);
    if rollout.is_halted() {
        sorted.replace_what_is_gone(job, existing);
    }
    sorted.stop_surplus(job, group, count);
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
    let limit = rollout.limit(job, group, existing);
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

/// Allocations by what they are, before the count is looked at.
#[derive(Default)]
struct Sorted {
    buckets: Buckets,
    /// They stand, and the count decides about them.
    standing: Vec<Arc<Allocation>>,
    /// They failed, and are tried again at that time, at which nobody is due yet to look at them,
    /// or are kept as they are.
    failed: Vec<(Arc<Allocation>, Option<UnixNanos>)>,
    /// Others that take part in the count: done, or silent and not replaced.
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
            Class::Done => {
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
            Class::Unknown {
                counts,
                replace,
                until,
            } => {
                self.counted += u32::from(counts);
                self.gaps.extend(replace.then(gap));
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
                self.gaps.push(Wanted {
                    elsewhere: alloc.desired_transition.moves_elsewhere(),
                    ..gap()
                });
            }
            Class::Failed(Retry::Now) => {
                buckets.reschedule.push(shared);
                self.gaps.push(retried(group, alloc, now));
            }
            Class::Failed(Retry::At(at)) => self.failed.push((shared, (!awaited).then_some(at))),
            Class::Failed(Retry::Never) => self.failed.push((shared, None)),
            Class::Standing => self.standing.push(shared),
        }
    }

    /// What failed takes part in the count, but never at the cost of what stands: where there are
    /// enough others, nobody tries it again.
    fn let_failures_make_way(&mut self, count: u32) {
        let others = self.counted.saturating_add(len(&self.standing));
        let kept = count.saturating_sub(others);
        self.failed
            .sort_by_key(|(alloc, _)| (alloc.index(), alloc.create_index, alloc.id));
        for (number, (alloc, again_at)) in std::mem::take(&mut self.failed).into_iter().enumerate()
        {
            if number >= kept as usize {
                self.buckets.stop.push((alloc, NOT_NEEDED));
                continue;
            }
            self.counted += 1;
            match again_at {
                Some(at) => self.buckets.reschedule_at.push((alloc, at)),
                None => self.buckets.keep.push(alloc),
            }
        }
    }

    /// A halted rollout adds nothing, so that what left a gap behind is found by its record: the
    /// newest of each number that nobody has.
    fn replace_what_is_gone(&mut self, job: &Job, existing: &[Arc<Allocation>]) {
        let standing = existing.iter().filter(|alloc| !alloc.terminal());
        let waiting = self.buckets.reschedule_at.iter().map(|(alloc, _)| alloc);
        let replaced = self.gaps.iter().filter_map(|gap| gap.previous.as_ref());
        let mut numbers: BTreeSet<Option<u32>> = standing
            .chain(&self.buckets.keep)
            .chain(waiting)
            .chain(replaced)
            .map(|alloc| alloc.index())
            .collect();
        let gone = |alloc: &&Arc<Allocation>| left_a_gap(job, alloc);
        let mut gone: Vec<&Arc<Allocation>> = self.buckets.ignore.iter().filter(gone).collect();
        gone.sort_by_key(|alloc| std::cmp::Reverse((alloc.create_index, alloc.id)));
        for alloc in gone {
            if numbers.insert(alloc.index()) {
                self.gaps.push(Wanted::replacing(alloc.name.clone(), alloc));
            }
        }
    }

    /// Stops what stands above `count`: first of two with one number the one that does not run, is
    /// of an older version, or, where one of them is back, is not the one that the group wants to
    /// stay; then those that do not run, then the highest numbers.
    fn stop_surplus(&mut self, job: &Job, group: &TaskGroup, count: u32) {
        let count = count.saturating_sub(self.counted);
        let rests = |alloc: &Allocation| alloc.client_status != ClientStatus::Running;
        let outdated = |alloc: &Allocation| !runs_version(alloc, job);
        let returning = &self.buckets.reconnect;
        let ids: BTreeSet<AllocId> = returning.iter().map(|alloc| alloc.id).collect();
        let of_pairs: BTreeSet<Option<u32>> = returning.iter().map(|alloc| alloc.index()).collect();
        let winner = Winner::of(group);
        let rank = |alloc: &Allocation| {
            let paired = of_pairs.contains(&alloc.index());
            paired.then(|| winner.rank(alloc, ids.contains(&alloc.id)))
        };
        self.standing.sort_by_key(|alloc| {
            let age = (alloc.create_index, alloc.id);
            (rests(alloc), outdated(alloc), rank(alloc), age)
        });
        let mut numbers: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        let mut ranked: Vec<(u32, Arc<Allocation>)> = Vec::new();
        for alloc in std::mem::take(&mut self.standing) {
            let before = numbers.entry(alloc.index()).or_default();
            ranked.push((*before, alloc));
            *before += 1;
        }
        ranked.sort_by_key(|(double, alloc)| {
            (
                *double,
                rests(alloc),
                alloc.index(),
                alloc.create_index,
                alloc.id,
            )
        });
        self.standing = ranked.into_iter().map(|(_, alloc)| alloc).collect();
        let surplus = self
            .standing
            .split_off(self.standing.len().min(count as usize));
        let ids: BTreeSet<AllocId> = surplus.iter().map(|alloc| alloc.id).collect();
        self.buckets
            .reconnect
            .retain(|alloc| !ids.contains(&alloc.id));
        let stops = surplus.into_iter().rev().map(|alloc| (alloc, NOT_NEEDED));
        self.buckets.stop.extend(stops);
    }

    /// As many gaps as are `open` are filled. What would have left its place for the others goes
    /// without a successor.
    fn close_gaps(&mut self, open: u32) {
        let surplus = self.gaps.split_off(self.gaps.len().min(open as usize));
        let surplus = surplus.into_iter().filter_map(|gap| gap.previous);
        let ids: BTreeSet<AllocId> = surplus.map(|alloc| alloc.id).collect();
        let buckets = &mut self.buckets;
        for leaving in [&mut buckets.migrate, &mut buckets.reschedule] {
            let surplus = |alloc: &mut Arc<Allocation>| ids.contains(&alloc.id);
            let stops = leaving.extract_if(.., surplus);
            buckets.stop.extend(stops.map(|alloc| (alloc, NOT_NEEDED)));
        }
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

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
