//! Groups that stop themselves (`stop_on_client_after`): physically one of each number.
//!
//! What such a group loses a word about (an update, a drain, an acceptance that did not come) is
//! told to stop, and may run on until it did: a start that hangs behind a disk may even come after
//! the stop. So its number is nobody's until its node says that it ended, or until nothing of it
//! can run any more because its lease is over.
//!
//! ```text
//!   stands --leaves, and somebody else could be placed--> told to stop --ended--> placed
//!                                                            |  its node is silent: at the end of
//!                                                            +- its lease, an evaluation looks
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{Allocation, UnixNanos};

use super::condition::{LeaseEnd, awaited, lease_end};
use super::{Subject, Wanted};

/// What of a group may run although nobody wants it.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    /// Whether the group is one that has to wait for it.
    leased: bool,
    numbers: BTreeSet<u32>,
}

/// What is to be done about one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lingers {
    /// It is over, or its group waits for nobody.
    No,
    /// Its node will say when it ended, or somebody is due to look.
    IsAwaited,
    /// Somebody has to look then.
    LookAt(UnixNanos),
}

impl Lingering {
    pub(super) fn of(subject: &Subject<'_>) -> Self {
        Self {
            leased: subject.group.lease_term().is_some(),
            numbers: BTreeSet::new(),
        }
    }

    /// Notes an allocation, if it lingers.
    pub(super) fn take(&mut self, subject: &Subject<'_>, alloc: &Allocation) -> Lingers {
        if !self.leased || !alloc.server_terminal() || alloc.client_terminal() {
            return Lingers::No;
        }
        let Some(over_after) = subject.group.lease_over_after() else {
            return Lingers::No;
        };
        let until = match lease_end(subject.snapshot, alloc, over_after) {
            LeaseEnd::At(end) if end <= subject.now => return Lingers::No,
            LeaseEnd::Forgotten => return Lingers::No,
            LeaseEnd::At(end) => Some(end),
            LeaseEnd::Extended => None,
        };
        self.numbers.extend(alloc.index());
        let due = awaited(subject.snapshot, alloc, subject.eval);
        match until {
            Some(end) if !due => Lingers::LookAt(end),
            Some(_) | None => Lingers::IsAwaited,
        }
    }

    /// What this plan stops lingers from then on.
    pub(super) fn stops<'a>(&mut self, stopped: impl Iterator<Item = &'a Arc<Allocation>>) {
        if self.leased {
            let live = stopped.filter(|alloc| !alloc.client_terminal());
            self.numbers.extend(live.filter_map(|alloc| alloc.index()));
        }
    }

    /// Takes out what would be placed beside one that may still run.
    pub(super) fn hold_back(&self, gaps: &mut Vec<Wanted>) {
        let lingers = |wanted: &Wanted| {
            let number = wanted.previous.as_ref().and_then(|alloc| alloc.index());
            number.is_some_and(|number| self.numbers.contains(&number))
        };
        gaps.retain(|wanted| !lingers(wanted));
    }

    /// Numbers that nobody may have yet.
    pub(super) fn numbers(&self) -> &BTreeSet<u32> {
        &self.numbers
    }

    /// The numbers that may be placed: below `count`, as long as a number matters.
    pub(super) fn below(&self, count: u32) -> u32 {
        if self.leased { count } else { u32::MAX }
    }

    /// Whom placements follow, by number: the newest that had it, wanted no more.
    pub(super) fn predecessors<'a>(
        &self,
        existing: &'a [Arc<Allocation>],
    ) -> BTreeMap<u32, &'a Arc<Allocation>> {
        let mut newest: BTreeMap<u32, &Arc<Allocation>> = BTreeMap::new();
        if !self.leased {
            return newest;
        }
        let age = |alloc: &Arc<Allocation>| (alloc.create_index, alloc.id);
        for alloc in existing.iter().filter(|alloc| alloc.server_terminal()) {
            let Some(number) = alloc.index() else {
                continue;
            };
            let known = newest.entry(number).or_insert(alloc);
            if age(known) < age(alloc) {
                *known = alloc;
            }
        }
        newest.retain(|_, alloc| alloc.next_allocation.is_none());
        newest
    }
}
