//! Groups that stop themselves (`stop_on_client_after`): physically one of each number.
//!
//! What such a group loses a word about (an update, a drain, an acceptance that did not come) is
//! told to stop, and may run on until it did: a start that hangs behind a disk may even come after
//! the stop. So its number is nobody's until its node says that it ended, or until nothing of it
//! can run any more because its lease is over. That is so where either version stops itself, the
//! one that it runs or the one that is wanted. Where it is only the latter, no lease of it ends:
//! nobody waits for it while its node is silent.
//!
//! ```text
//!   stands --leaves, and somebody else could be placed--> told to stop --ended--> placed
//!                                                            |  its node is silent: at the end of
//!                                                            +- its lease, an evaluation looks
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::{LeaseEnd, Snapshot};
use protocol_model::{Allocation, TaskGroup, UnixNanos};

use super::condition::{Taint, awaited};
use super::{Subject, Wanted};

/// What of a group may run although nobody wants it.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    /// Whether the version that is wanted stops itself.
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

/// Until when the number of one that is wanted no more is nobody else's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keeps {
    /// It is free.
    No,
    /// Its node will say when it ended.
    UntilItEnded,
    /// Nothing of it can run any more then.
    Until(UnixNanos),
}

/// Whether `alloc` has to end before another one of `group` is placed with its number.
pub(crate) fn ends_first(snapshot: &Snapshot, group: &TaskGroup, alloc: &Allocation) -> bool {
    let is_leased = |group: &TaskGroup| group.lease_term().is_some();
    is_leased(group) || snapshot.group_of_alloc(alloc).is_some_and(is_leased)
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
        if !alloc.server_terminal() || alloc.client_terminal() {
            return Lingers::No;
        }
        let until = match self.keeps_its_number(subject, alloc) {
            Keeps::No => return Lingers::No,
            Keeps::UntilItEnded => None,
            Keeps::Until(end) => Some(end),
        };
        self.numbers.extend(alloc.index());
        let due = awaited(subject, alloc);
        match until {
            Some(end) if !due => Lingers::LookAt(end),
            Some(_) | None => Lingers::IsAwaited,
        }
    }

    /// What this plan stops lingers from then on.
    pub(super) fn stops<'a>(
        &mut self,
        subject: &Subject<'_>,
        stopped: impl Iterator<Item = &'a Arc<Allocation>>,
    ) {
        for alloc in stopped.filter(|alloc| !alloc.client_terminal()) {
            if self.keeps_its_number(subject, alloc) != Keeps::No {
                self.numbers.extend(alloc.index());
            }
        }
    }

    fn keeps_its_number(&self, subject: &Subject<'_>, alloc: &Allocation) -> Keeps {
        match subject.snapshot.lease_end(alloc) {
            LeaseEnd::At(end) if end <= subject.now => Keeps::No,
            LeaseEnd::At(end) => Keeps::Until(end),
            LeaseEnd::Extended => Keeps::UntilItEnded,
            LeaseEnd::NoLease if !self.leased => Keeps::No,
            LeaseEnd::NoLease => match Taint::on(subject.snapshot, alloc) {
                Taint::None => Keeps::UntilItEnded,
                Taint::Disconnected | Taint::Gone | Taint::Forgotten => Keeps::No,
            },
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
        if self.leased || !self.numbers.is_empty() {
            count
        } else {
            u32::MAX
        }
    }

    /// Whom placements follow, by number: the newest that had it, wanted no more.
    pub(super) fn predecessors<'a>(
        subject: &Subject<'_>,
        existing: &'a [Arc<Allocation>],
    ) -> BTreeMap<u32, &'a Arc<Allocation>> {
        let mut newest: BTreeMap<u32, &Arc<Allocation>> = BTreeMap::new();
        let age = |alloc: &Arc<Allocation>| (alloc.create_index, alloc.id);
        let stopped = existing.iter().filter(|alloc| alloc.server_terminal());
        for alloc in stopped.filter(|alloc| ends_first(subject.snapshot, subject.group, alloc)) {
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
