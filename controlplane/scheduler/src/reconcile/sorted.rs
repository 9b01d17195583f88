//! The allocations of a group of a service or batch job by what they are, before and while its
//! count is looked at.
//!
//! A number (the `[0]` of a name) is one allocation's. What is silent or lost is replaced where
//! nobody has its number: not its successor, not whoever took the place of that one, however long
//! the chain is and whatever of it was collected meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use controlplane_state::left_a_gap;
use protocol_model::{Allocation, ClientStatus, TaskGroup, UnixNanos};

use super::class::Class;
use super::condition::Silence;
use super::lingering::ends_first;
use super::{Buckets, MIGRATING, NOT_NEEDED, Subject, Wanted};
use crate::reschedule::{self, Retry};

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
    /// They ended, and may be placed anew.
    ended: Vec<Ended>,
    /// They are silent, and their group waits for them.
    waited_for: Vec<Silent>,
    /// A drain ends them, and their numbers stay theirs.
    retired: Vec<Arc<Allocation>>,
    /// They are silent or lost, and somebody takes their place.
    absent: Vec<Arc<Allocation>>,
}

#[derive(Debug)]
struct Ended {
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
            Class::ForcedOut => {
                buckets.stop.push((shared, MIGRATING));
                self.gaps.push(Wanted::replacing(alloc.name.clone(), alloc));
            }
            Class::Retired { counts } => {
                buckets.stop.push((Arc::clone(alloc), MIGRATING));
                if counts {
                    self.counted += 1;
                    self.retired.push(shared);
                }
            }
            Class::Ended(retry) => self.ended.push(Ended {
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
        if self.ended.is_empty() && self.waited_for.is_empty() && self.absent.is_empty() {
            // Nobody will ask.
            return Held(BTreeSet::new());
        }
        let kept = self.buckets.keep.iter();
        let done = kept.filter(|alloc| alloc.client_status != ClientStatus::Unknown);
        let leaving = self.gaps.iter().filter_map(|gap| gap.previous.as_ref());
        let there = self.standing.iter().chain(done).chain(leaving);
        let there = there.chain(&self.retired);
        Held(there.filter_map(|alloc| alloc.index()).collect())
    }

    /// How many are there once one of each number is: of two that stand with one number one goes.
    fn there(&self) -> u32 {
        let mut numbers = BTreeSet::new();
        let mut first = |alloc: &&Arc<Allocation>| {
            let number = alloc.index();
            number.is_none_or(|number| numbers.insert(number))
        };
        let standing = self.standing.iter().filter(|alloc| first(alloc)).count();
        self.counted
            .saturating_add(u32::try_from(standing).unwrap_or(u32::MAX))
    }

    /// Silent ones that their group waits for count, where nobody took their place while it did
    /// not; but never at the cost of what is there: where that is enough, they are wanted no more.
    pub(super) fn count_silent(&mut self, count: u32, held: &mut Held) {
        let there = self.there();
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

    /// What ended takes part in the count, but never at the cost of what stands: where there are
    /// enough others, or another one has its number, it is not placed anew.
    pub(super) fn let_ended_make_way(
        &mut self,
        group: &TaskGroup,
        count: u32,
        held: &mut Held,
        now: UnixNanos,
    ) {
        let mut free = count.saturating_sub(self.there());
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by_key(|it| (it.alloc.index(), it.alloc.create_index, it.alloc.id));
        let buckets = &mut self.buckets;
        for Ended {
            alloc,
            retry,
            awaited,
        } in ended
        {
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
        subject: &Subject<'_>,
        existing: &[Arc<Allocation>],
    ) {
        let Subject {
            snapshot,
            job,
            group,
            ..
        } = *subject;
        let standing = existing.iter().filter(|alloc| !alloc.terminal());
        let waiting = self.buckets.reschedule_at.iter().map(|(alloc, _)| alloc);
        let replaced = self.gaps.iter().filter_map(|gap| gap.previous.as_ref());
        let mut numbers: BTreeSet<Option<u32>> = standing
            .chain(&self.buckets.keep)
            .chain(waiting)
            .chain(replaced)
            .map(|alloc| alloc.index())
            .collect();
        let made_way = |alloc: &Allocation| {
            alloc.server_terminal()
                && alloc.next_allocation.is_none()
                && alloc.job_create_index == job.create_index
                && ends_first(snapshot, group, alloc)
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
}

fn newest_first(mut allocs: Vec<Arc<Allocation>>) -> Vec<Arc<Allocation>> {
    allocs.sort_by_key(|alloc| std::cmp::Reverse((alloc.create_index, alloc.id)));
    allocs
}

fn retried(group: &TaskGroup, alloc: &Arc<Allocation>, now: UnixNanos) -> Wanted {
    Wanted {
        tracker: Some(reschedule::next_tracker(group, alloc, now)),
        penalized: alloc.client_status == ClientStatus::Failed,
        elsewhere: alloc.desired_transition.moves_elsewhere(),
        ..Wanted::replacing(alloc.name.clone(), alloc)
    }
}

pub(super) fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
