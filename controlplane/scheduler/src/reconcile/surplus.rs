//! What of a group goes, because its number is somebody else's or there are enough without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, UnixNanos};

use super::condition::{awaited, own_group, window_end};
use super::sorted::{Sorted, len};
use super::winner::Winner;
use super::{Difference, NOT_NEEDED, Subject, Wanted, difference_of, runs_version};
use crate::rollout::Rollout;

impl Sorted {
    /// Of two that stand with one number stops the one that is superseded, does not run, is of an
    /// older version, or, where one of them is back, is not the one that the group wants to stay.
    /// Of the others stops what is above `count`: those that do not run, then the highest numbers.
    /// What is back although its number ran to its end meanwhile is not wanted, either. Answers
    /// which of those that are back wait for their start.
    pub(super) fn stop_surplus(
        &mut self,
        subject: &Subject<'_>,
        rollout: &Rollout,
        count: u32,
    ) -> BTreeSet<AllocId> {
        let Subject {
            snapshot,
            job,
            group,
            ..
        } = *subject;
        let count = count.saturating_sub(self.counted);
        let superseded = self.superseded(subject, rollout);
        let rests = |alloc: &Allocation| alloc.client_status != ClientStatus::Running;
        let outdated = |alloc: &Allocation| !runs_version(alloc, job);
        let returning = &self.buckets.reconnect;
        let ids: BTreeSet<AllocId> = returning.iter().map(|alloc| alloc.id).collect();
        // A pair is of one version: of two, the older one goes.
        let winner = |alloc: &Arc<Allocation>| Winner::of(own_group(snapshot, group, alloc));
        let of_pairs = returning.iter().map(|alloc| (alloc.index(), winner(alloc)));
        let of_pairs: BTreeMap<Option<u32>, Winner<'_>> = of_pairs.collect();
        let rank = |alloc: &Allocation| {
            let winner = of_pairs.get(&alloc.index());
            winner.map(|winner| winner.rank(alloc, ids.contains(&alloc.id)))
        };
        let starts = |alloc: &Allocation| is_back_at_rest(subject, alloc);
        self.standing.sort_by_key(|alloc| {
            let age = (alloc.create_index, alloc.id);
            let superseded = superseded.contains(&alloc.id);
            let at_rest = (rests(alloc), starts(alloc));
            (superseded, at_rest, outdated(alloc), rank(alloc), age)
        });
        let done = self.buckets.keep.iter();
        let done = done.filter(|alloc| alloc.client_status == ClientStatus::Complete);
        let done: BTreeSet<u32> = done.filter_map(|alloc| alloc.index()).collect();
        let leaving = self.buckets.migrate.iter().filter_map(|it| it.index());
        let leaving: BTreeSet<u32> = leaving.collect();
        let mut numbers = BTreeSet::new();
        let mut ranked: Vec<(bool, Arc<Allocation>)> = Vec::new();
        for alloc in std::mem::take(&mut self.standing) {
            let number = alloc.index();
            let over = ids.contains(&alloc.id) && number.is_some_and(|it| done.contains(&it));
            let beside = starts(&alloc) && number.is_some_and(|it| leaving.contains(&it));
            let double = over || beside || number.is_some_and(|number| !numbers.insert(number));
            ranked.push((double, alloc));
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
        let single = ranked.partition_point(|(double, _)| !double);
        self.standing = ranked.into_iter().map(|(_, alloc)| alloc).collect();
        let mut surplus = self.standing.split_off(single.min(count as usize));
        let undecided = self.leave_undecided(subject, count, &mut surplus);
        let ids: BTreeSet<AllocId> = surplus.iter().map(|alloc| alloc.id).collect();
        self.buckets
            .reconnect
            .retain(|alloc| !ids.contains(&alloc.id));
        let stops = surplus.into_iter().rev().map(|alloc| (alloc, NOT_NEEDED));
        self.buckets.stop.extend(stops);
        undecided
    }

    /// Those that would make way for this version anyway, of which one with the same number is
    /// there already, if only on its way: to stop that one for what runs would be to place it once
    /// more, from nothing. Where this version goes no further, what runs is kept.
    fn superseded(&self, subject: &Subject<'_>, rollout: &Rollout) -> BTreeSet<AllocId> {
        let Subject { snapshot, job, .. } = *subject;
        if rollout.is_halted() {
            return BTreeSet::new();
        }
        let standing = self.standing.iter();
        let (newest, older): (Vec<_>, Vec<_>) = standing.partition(|it| runs_version(it, job));
        let newest: BTreeSet<u32> = newest.iter().filter_map(|alloc| alloc.index()).collect();
        let older = older.into_iter().filter(|alloc| {
            let paired = alloc.index().is_some_and(|it| newest.contains(&it));
            paired && difference_of(snapshot, job, alloc) == Some(Difference::Destructive)
        });
        older.map(|alloc| alloc.id).collect()
    }

    /// Of each gap, whether it is filled where `open` are: none whose number stands, or is another
    /// gap's.
    fn filled(&self, mut open: u32) -> Vec<bool> {
        let standing = self.standing.iter().filter_map(|alloc| alloc.index());
        let mut numbers: BTreeSet<u32> = standing.collect();
        let gaps = self.gaps.iter().map(|gap| {
            let number = gap.previous.as_ref().and_then(|alloc| alloc.index());
            let double = number.is_some_and(|number| !numbers.insert(number));
            let fills = !double && open > 0;
            open -= u32::from(fills);
            fills
        });
        gaps.collect()
    }

    /// What is back without running and would stay instead of the other of its pair if it ran is
    /// left as it is until it runs or its window is over: nothing that runs ends for it, also what
    /// is just being restarted or leaves its node for a successor, and it does not go for being
    /// slower to start than its node to report.
    fn leave_undecided(
        &mut self,
        subject: &Subject<'_>,
        count: u32,
        surplus: &mut Vec<Arc<Allocation>>,
    ) -> BTreeSet<AllocId> {
        let Subject { job, group, .. } = *subject;
        let winner = Winner::of(group);
        let returning = &self.buckets.reconnect;
        let filled = self.filled(count.saturating_sub(len(&self.standing)));
        let filled = self.gaps.iter().zip(filled).filter(|(_, fills)| *fills);
        let succeeded = filled.filter_map(|(gap, _)| gap.previous.as_ref());
        let others: Vec<&Arc<Allocation>> = self.standing.iter().chain(succeeded).collect();
        let stays_if_it_runs = |alloc: &Allocation| {
            let mut pairs = others.iter();
            let pair = pairs.find(|it| it.index().is_some() && it.index() == alloc.index());
            pair.is_some_and(|pair| {
                let rank = |alloc: &Allocation, returning| {
                    let age = (alloc.create_index, alloc.id);
                    let outdated = !runs_version(alloc, job);
                    (outdated, winner.rank(alloc, returning), age)
                };
                let is_back = returning.iter().any(|it| it.id == pair.id);
                rank(alloc, true) < rank(pair, is_back)
            })
        };
        let mut undecided = Vec::new();
        surplus.retain(|alloc| {
            let until = starts_until(subject, alloc).filter(|_| stays_if_it_runs(alloc));
            undecided.extend(until.map(|until| (Arc::clone(alloc), until)));
            until.is_none()
        });
        let ids: BTreeSet<AllocId> = undecided.iter().map(|(alloc, _)| alloc.id).collect();
        self.buckets.reconnect.retain(|it| !ids.contains(&it.id));
        for (alloc, until) in undecided {
            if awaited(subject, &alloc) {
                self.buckets.keep.push(alloc);
            } else {
                self.buckets.give_up_at.push((alloc, until));
            }
        }
        ids
    }

    /// As many gaps as are `open` are filled, and none whose number stands. What would have left
    /// its place for the others goes without a successor.
    pub(super) fn close_gaps(&mut self, open: u32) {
        let mut filled = self.filled(open).into_iter();
        let closes = |_: &mut Wanted| filled.next() == Some(false);
        let surplus: Vec<Wanted> = self.gaps.extract_if(.., closes).collect();
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

/// Whether `alloc` is back without running: its host booted, and starts it anew. Not one of a batch
/// job: nobody waits for it, for the work that the other one does would be done twice.
fn is_back_at_rest(subject: &Subject<'_>, alloc: &Allocation) -> bool {
    let Subject { job, group, .. } = *subject;
    alloc.client_status == ClientStatus::Pending
        && alloc.needs_reconnect()
        && runs_version(alloc, job)
        && !job.job_type.runs_to_completion()
        && group.disconnect_window().is_some()
}

/// Until when such a one is waited for.
fn starts_until(subject: &Subject<'_>, alloc: &Allocation) -> Option<UnixNanos> {
    let until = window_end(alloc, subject.group.disconnect_window());
    until.filter(|end| *end > subject.now && is_back_at_rest(subject, alloc))
}
