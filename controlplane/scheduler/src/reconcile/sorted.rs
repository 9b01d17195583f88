//! The allocations of a group of a service or batch job by what they are, before and while its
//! count is looked at.
//!
//! A number (the `[0]` of a name) is one allocation's. What is silent or lost is replaced where
//! nobody has its number: not its successor, not whoever took the place of that one, however long
//! the chain is and whatever of it was collected meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::left_a_gap;
use protocol_model::{AllocId, Allocation, ClientStatus, Job, TaskGroup, UnixNanos};

use super::class::{Class, Silence};
use super::winner::Winner;
use super::{Buckets, NOT_NEEDED, Wanted, runs_version};
use crate::reschedule::{self, Retry};
use crate::rollout::Rollout;

/// Allocations by what they are, before the count is looked at.
#[derive(Default)]
pub(super) struct Sorted {
    pub(super) buckets: Buckets,
    /// They stand, and the count decides about them.
    pub(super) standing: Vec<Arc<Allocation>>,
    /// Others that take part in the count: done, or silent and not replaced.
    pub(super) counted: u32,
    /// Placements that take the place of something.
    pub(super) gaps: Vec<Wanted>,
    /// They failed, and may be tried again.
    failed: Vec<Failure>,
    /// They are silent, and their group waits for them.
    waited_for: Vec<Silent>,
    /// They are silent or lost, and somebody takes their place.
    absent: Vec<Arc<Allocation>>,
}

#[derive(Debug)]
struct Failure {
    alloc: Arc<Allocation>,
    retry: Retry,
    /// An evaluation is due that will look at it again.
    awaited: bool,
}

#[derive(Debug)]
struct Silent {
    alloc: Arc<Allocation>,
    /// What is to be done where it stays.
    note: Note,
}

/// What is to be noted of a silent allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Note {
    /// That it is silent.
    Silence,
    /// When it is given up, at which nobody is due yet to look at it.
    GiveUpAt(UnixNanos),
    Nothing,
}

/// What becomes of the surplus of allocations that stand and have one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doubles {
    /// They go, and the number that is missing is placed.
    Go,
    /// They go where there are more than enough: nothing would be placed for them.
    Count,
}

impl Doubles {
    pub(super) fn of(rollout: &Rollout) -> Self {
        if rollout.is_halted() {
            Self::Count
        } else {
            Self::Go
        }
    }
}

/// Numbers that are somebody's.
#[derive(Debug)]
pub(super) struct Held(BTreeSet<u32>);

impl Held {
    /// Whether nobody had the number of `alloc`, which is its own from now on. What has none is in
    /// nobody's way.
    fn give_to(&mut self, alloc: &Allocation) -> bool {
        alloc.index().is_none_or(|number| self.0.insert(number))
    }
}

impl Buckets {
    /// A silent one that stays.
    fn note(&mut self, alloc: Arc<Allocation>, note: Note) {
        match note {
            Note::Silence => self.disconnect.push(alloc),
            Note::GiveUpAt(at) => self.give_up_at.push((alloc, at)),
            Note::Nothing => self.keep.push(alloc),
        }
    }
}

impl Sorted {
    /// `awaited`: an evaluation is due that will look at it again.
    pub(super) fn take(&mut self, alloc: &Arc<Allocation>, class: Class, awaited: bool) {
        let buckets = &mut self.buckets;
        let shared = Arc::clone(alloc);
        match class {
            Class::Over => buckets.ignore.push(shared),
            Class::Done => {
                self.counted += 1;
                buckets.keep.push(shared);
            }
            Class::Lost => {
                buckets.lost.push(Arc::clone(alloc));
                self.absent.push(shared);
            }
            Class::Disconnecting(silence) => self.is_silent(shared, silence, Note::Silence),
            Class::Unknown { silence, until } => {
                let note = until.filter(|_| !awaited);
                let note = note.map_or(Note::Nothing, Note::GiveUpAt);
                self.is_silent(shared, silence, note);
            }
            Class::Reconnecting => {
                buckets.reconnect.push(Arc::clone(alloc));
                self.standing.push(shared);
            }
            Class::Leaving => {
                buckets.migrate.push(shared);
                self.gaps.push(Wanted {
                    elsewhere: alloc.desired_transition.moves_elsewhere(),
                    ..Wanted::replacing(alloc.name.clone(), alloc)
                });
            }
            Class::Failed(retry) => self.failed.push(Failure {
                alloc: shared,
                retry,
                awaited,
            }),
            Class::Standing => self.standing.push(shared),
        }
    }

    fn is_silent(&mut self, alloc: Arc<Allocation>, silence: Silence, note: Note) {
        match silence {
            Silence::Waits => self.waited_for.push(Silent { alloc, note }),
            Silence::IsReplaced => {
                self.absent.push(Arc::clone(&alloc));
                self.buckets.note(alloc, note);
            }
        }
    }

    /// The numbers of all that are there: they stand, are done, or leave for a successor.
    pub(super) fn numbers_held(&self) -> Held {
        if self.failed.is_empty() && self.waited_for.is_empty() && self.absent.is_empty() {
            // Nobody will ask.
            return Held(BTreeSet::new());
        }
        let kept = self.buckets.keep.iter();
        let done = kept.filter(|alloc| alloc.client_status != ClientStatus::Unknown);
        let leaving = self.gaps.iter().filter_map(|gap| gap.previous.as_ref());
        let there = self.standing.iter().chain(done).chain(leaving);
        Held(there.filter_map(|alloc| alloc.index()).collect())
    }

    /// Silent ones that their group waits for count, where nobody took their place while it did
    /// not; but never at the cost of what is there: where that is enough, they are wanted no more.
    pub(super) fn count_silent(&mut self, count: u32, held: &mut Held) {
        let there = self.counted.saturating_add(len(&self.standing));
        let mut free = count.saturating_sub(there);
        let mut silent = std::mem::take(&mut self.waited_for);
        // Of one number the newest, and of all the lowest numbers.
        silent.sort_by_key(|it| {
            let age = std::cmp::Reverse(it.alloc.create_index);
            (it.alloc.index(), age, it.alloc.id)
        });
        for Silent { alloc, note } in silent {
            let alone = held.give_to(&alloc);
            if !alone && there <= count {
                // Which of the two stays is decided when it is back.
                self.buckets.note(alloc, note);
            } else if alone && free > 0 {
                free -= 1;
                self.counted += 1;
                self.buckets.waited_for.push(Arc::clone(&alloc));
                self.buckets.note(alloc, note);
            } else {
                self.buckets.stop.push((alloc, NOT_NEEDED));
            }
        }
    }

    /// What failed takes part in the count, but never at the cost of what stands: where there are
    /// enough others, or another one has its number, nobody tries it again.
    pub(super) fn let_failures_make_way(
        &mut self,
        group: &TaskGroup,
        count: u32,
        held: &mut Held,
        now: UnixNanos,
    ) {
        let others = self.counted.saturating_add(len(&self.standing));
        let mut free = count.saturating_sub(others);
        let mut failed = std::mem::take(&mut self.failed);
        failed.sort_by_key(|it| (it.alloc.index(), it.alloc.create_index, it.alloc.id));
        let buckets = &mut self.buckets;
        for failure in failed {
            let Failure {
                alloc,
                retry,
                awaited,
            } = failure;
            let tried_now = retry == Retry::Now;
            if !(tried_now || free > 0) || !held.give_to(&alloc) {
                buckets.stop.push((alloc, NOT_NEEDED));
                continue;
            }
            if !tried_now {
                free -= 1;
                self.counted += 1;
            }
            match retry {
                Retry::Now => {
                    self.gaps.push(retried(group, &alloc, now));
                    buckets.reschedule.push(alloc);
                }
                Retry::At(at) if !awaited => buckets.reschedule_at.push((alloc, at)),
                Retry::At(_) | Retry::Never => buckets.keep.push(alloc),
            }
        }
    }

    /// Somebody takes the place of what is silent or lost, once for each number that nobody has:
    /// after the newest that had it.
    pub(super) fn replace_absent(&mut self, held: &mut Held) {
        let absent = newest_first(std::mem::take(&mut self.absent));
        let alone = absent.into_iter().filter(|alloc| held.give_to(alloc));
        let gaps = alone.map(|alloc| Wanted::replacing(alloc.name.clone(), &alloc));
        let mut gaps: Vec<Wanted> = gaps.collect();
        gaps.reverse();
        self.gaps.extend(gaps);
    }

    /// A halted rollout adds nothing, so that what left a gap behind is found by its record: the
    /// newest of each number that nobody has. So is what was to be followed once it had ended.
    pub(super) fn replace_what_is_gone(
        &mut self,
        job: &Job,
        group: &TaskGroup,
        existing: &[Arc<Allocation>],
    ) {
        let standing = existing.iter().filter(|alloc| !alloc.terminal());
        let waiting = self.buckets.reschedule_at.iter().map(|(alloc, _)| alloc);
        let replaced = self.gaps.iter().filter_map(|gap| gap.previous.as_ref());
        let mut numbers: BTreeSet<Option<u32>> = standing
            .chain(&self.buckets.keep)
            .chain(waiting)
            .chain(replaced)
            .map(|alloc| alloc.index())
            .collect();
        let leased = group.lease_term().is_some();
        let made_way = |alloc: &Allocation| {
            leased
                && alloc.server_terminal()
                && alloc.next_allocation.is_none()
                && alloc.job_create_index == job.create_index
        };
        let gone = |alloc: &&Arc<Allocation>| left_a_gap(job, alloc) || made_way(alloc);
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
    pub(super) fn stop_surplus(
        &mut self,
        job: &Job,
        group: &TaskGroup,
        count: u32,
        doubles: Doubles,
    ) {
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
        let single = ranked.partition_point(|(double, _)| *double == 0);
        self.standing = ranked.into_iter().map(|(_, alloc)| alloc).collect();
        let stay = match doubles {
            Doubles::Go => self.standing.len().min(single),
            Doubles::Count => self.standing.len(),
        };
        let surplus = self.standing.split_off(stay.min(count as usize));
        let ids: BTreeSet<AllocId> = surplus.iter().map(|alloc| alloc.id).collect();
        self.buckets
            .reconnect
            .retain(|alloc| !ids.contains(&alloc.id));
        let stops = surplus.into_iter().rev().map(|alloc| (alloc, NOT_NEEDED));
        self.buckets.stop.extend(stops);
    }

    /// As many gaps as are `open` are filled. What would have left its place for the others goes
    /// without a successor.
    pub(super) fn close_gaps(&mut self, open: u32) {
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

fn newest_first(mut allocs: Vec<Arc<Allocation>>) -> Vec<Arc<Allocation>> {
    allocs.sort_by_key(|alloc| std::cmp::Reverse((alloc.create_index, alloc.id)));
    allocs
}

fn retried(group: &TaskGroup, alloc: &Arc<Allocation>, now: UnixNanos) -> Wanted {
    let policy = group.reschedule_policy.clone().unwrap_or_default();
    Wanted {
        tracker: Some(reschedule::next_tracker(alloc, &policy, now)),
        penalized: true,
        ..Wanted::replacing(alloc.name.clone(), alloc)
    }
}

pub(super) fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
