//! What of a group goes, because its number is somebody else's or there are enough without it.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, Job, TaskGroup};

use super::sorted::Sorted;
use super::winner::Winner;
use super::{NOT_NEEDED, Wanted, runs_version};

impl Sorted {
    /// Of two that stand with one number stops the one that does not run, is of an older version,
    /// or, where one of them is back, is not the one that the group wants to stay. Of the others
    /// stops what is above `count`: those that do not run, then the highest numbers.
    pub(super) fn stop_surplus(&mut self, job: &Job, group: &TaskGroup, count: u32) {
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
        let mut numbers = BTreeSet::new();
        let mut ranked: Vec<(bool, Arc<Allocation>)> = Vec::new();
        for alloc in std::mem::take(&mut self.standing) {
            let number = alloc.index();
            let double = number.is_some_and(|number| !numbers.insert(number));
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
        let surplus = self.standing.split_off(single.min(count as usize));
        let ids: BTreeSet<AllocId> = surplus.iter().map(|alloc| alloc.id).collect();
        self.buckets
            .reconnect
            .retain(|alloc| !ids.contains(&alloc.id));
        let stops = surplus.into_iter().rev().map(|alloc| (alloc, NOT_NEEDED));
        self.buckets.stop.extend(stops);
    }

    /// As many gaps as are `open` are filled, and none whose number stands. What would have left
    /// its place for the others goes without a successor.
    pub(super) fn close_gaps(&mut self, open: u32) {
        let standing = self.standing.iter().filter_map(|alloc| alloc.index());
        let mut numbers: BTreeSet<u32> = standing.collect();
        let is_double = |gap: &mut Wanted| {
            let previous = gap.previous.as_ref();
            let number = previous.and_then(|alloc| alloc.index());
            number.is_some_and(|number| !numbers.insert(number))
        };
        let mut surplus: Vec<Wanted> = self.gaps.extract_if(.., is_double).collect();
        surplus.extend(self.gaps.split_off(self.gaps.len().min(open as usize)));
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
