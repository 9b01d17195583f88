//! Until when allocations may run without another word from noded.
//!
//! ```text
//!   ExtendLeases        until is reached         ExtendLeases
//!  --------------> open ----------------> expired -----------> open
//!                    |  runs are killed,    |
//!                    |  none is started     |
//!                    +------ EndLease, Forget: none -----------+
//! ```
//!
//! A record on the runtime tmpfs says that there is a lease, so that a keeper that is started
//! after a crash goes on counting. It may be older than the lease by [`RECORD_STEP`], on the safe
//! side: extensions come several times a second.

use crate::protocol::BootNanos;
use std::collections::{BTreeMap, BTreeSet};

/// More than there can be runs is no use.
pub(crate) const LEASES_MAX: usize = super::RUNS_MAX;

/// How far a record may lag behind its lease.
const RECORD_STEP: BootNanos = BootNanos(2_000_000_000);

/// What an allocation's lease says now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It needs none.
    None,
    Open,
    Expired,
}

/// Whether a lease must be written to its record before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recording {
    /// It has no record, and must not be granted without.
    First,
    /// Its record has fallen behind.
    Due,
    NotDue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) until: BootNanos,
    pub(crate) recorded: BootNanos,
}

#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: BTreeMap<String, Held>,
    /// Those that are open, by deadline.
    open: BTreeSet<(BootNanos, String)>,
}

impl Leases {
    pub(super) fn standing(&self, alloc: &str, now: BootNanos) -> Standing {
        match self.held.get(alloc) {
            None => Standing::None,
            Some(held) if held.until > now => Standing::Open,
            Some(_) => Standing::Expired,
        }
    }

    pub(super) fn recording(&self, alloc: &str, until: BootNanos) -> Recording {
        match self.held.get(alloc) {
            None => Recording::First,
            Some(held) if until < held.recorded => Recording::Due,
            Some(held) if until > held.recorded.plus(RECORD_STEP) => Recording::Due,
            Some(_) => Recording::NotDue,
        }
    }

    /// `recorded` is what the record says from now on; `None` when it was not written.
    pub(super) fn set(&mut self, alloc: &str, until: BootNanos, recorded: Option<BootNanos>) {
        let earlier = self.held.get(alloc).copied();
        if let Some(earlier) = earlier {
            self.open.remove(&(earlier.until, alloc.to_owned()));
        }
        let before = earlier.map_or(until, |earlier| earlier.recorded);
        let held = Held {
            until,
            recorded: recorded.unwrap_or(before),
        };
        self.held.insert(alloc.to_owned(), held);
        self.open.insert((until, alloc.to_owned()));
    }

    /// Whether there was one.
    pub(super) fn remove(&mut self, alloc: &str) -> bool {
        let Some(held) = self.held.remove(alloc) else {
            return false;
        };
        self.open.remove(&(held.until, alloc.to_owned()));
        true
    }

    /// The allocations whose leases have run out since the last call.
    pub(super) fn expire(&mut self, now: BootNanos) -> Vec<String> {
        let mut expired = Vec::new();
        while let Some((until, _)) = self.open.first()
            && *until <= now
        {
            expired.extend(self.open.pop_first().map(|(_, alloc)| alloc));
        }
        expired
    }

    pub(super) fn next_deadline(&self) -> Option<BootNanos> {
        self.open.first().map(|(until, _)| *until)
    }

    pub(super) fn contains(&self, alloc: &str) -> bool {
        self.held.contains_key(alloc)
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Held)> {
        self.held
            .iter()
            .map(|(alloc, held)| (alloc.as_str(), *held))
    }
}
