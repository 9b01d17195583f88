//! When each allocation next wants to be looked at.

use std::collections::{BTreeMap, BTreeSet};

use protocol_model::AllocId;

use crate::time::Moment;

/// When each allocation next wants to be looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(Moment, AllocId)>,
    by_alloc: BTreeMap<AllocId, Moment>,
}

impl Timers {
    pub(super) fn set(&mut self, alloc: AllocId, at: Option<Moment>) {
        if self.by_alloc.get(&alloc).copied() == at {
            return;
        }
        if let Some(earlier) = self.by_alloc.remove(&alloc) {
            self.by_time.remove(&(earlier, alloc));
        }
        if let Some(at) = at {
            self.by_alloc.insert(alloc, at);
            self.by_time.insert((at, alloc));
        }
    }

    pub(super) fn first(&self) -> Option<Moment> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(super) fn due(&self, now: Moment) -> Vec<AllocId> {
        self.by_time
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, alloc)| *alloc)
            .collect()
    }
}
