//! What the control plane wants on this node: the watch, followed as a chain.
//!
//! ```text
//!              part 0..n           last part              every version of the map is there
//!   closed ---------------> map ---------------> following ----------------> watermark moves
//!     ^                      |                    |  ^   |
//!     |                      |                    |  +---+ delta from exactly here
//!     +----------------------+--------------------+
//!          gap, repeat, another incarnation, the session's end
//! ```
//!
//! Nodes never go back in time: only this machine moves the watermark, and it never moves down
//! within an incarnation. What a complete map does not name is destroyed, with one exception: where
//! the map is another incarnation's, nothing that it does not know is stopped until an operator or
//! the configured grace says so.
//!
//! The watermark waits for all that a map names, and the node acts before that on what has come.
//! So a map is refused, too, that is older than what was acted on: it does not know what came.

mod chain;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_model::AllocId;

use crate::effect::DisconnectReason;
use crate::event::{DesiredAlloc, WatchDelta, WatchMap};
use crate::key::Watermark;
use crate::time::Moment;
use chain::Chain;

/// What a message of the watch means for the node, in order.
#[derive(Clone, PartialEq, Debug)]
pub enum WatchStep {
    /// This is wanted now.
    Upsert(Box<DesiredAlloc>),
    /// The control plane does not know it any more.
    Destroy(AllocId),
    /// These, and no others, go on although this incarnation does not know them: journal it, or a
    /// new daemon takes them for what the control plane has dropped.
    Foreign(Vec<AllocId>),
    /// The complete map is there: what the node knows of these is what is wanted.
    Confirmed(Vec<AllocId>),
    /// Everything up to here has been handed out in the steps before: journal, then acknowledge.
    Moved(Watermark),
}

/// Allocations that another incarnation does not know.
#[derive(Clone, Debug, Default)]
struct Foreign {
    allocs: BTreeSet<AllocId>,
    since: Moment,
}

/// The node's side of the watch.
#[derive(Clone, Debug)]
pub struct AllocSet {
    watermark: Watermark,
    /// The newest that was acted on, ahead of the watermark while a map is being filled.
    acted: Watermark,
    /// Every allocation that the node was told of, with its version.
    known: BTreeMap<AllocId, u64>,
    chain: Chain,
    foreign: Foreign,
    grace: Option<Duration>,
}

impl AllocSet {
    /// The set as the journal left it. `newest` is the highest version that was acted on of what
    /// the watermark's incarnation wants here. `grace` is how long allocations that another
    /// incarnation does not know go on; `None` = for ever. A daemon's start begins it anew.
    pub(crate) fn new(
        watermark: Watermark,
        newest: u64,
        known: BTreeMap<AllocId, u64>,
        foreign: BTreeSet<AllocId>,
        grace: Option<Duration>,
        now: Moment,
    ) -> Self {
        let acted = Watermark {
            index: watermark.index.max(newest),
            ..watermark
        };
        Self {
            watermark,
            acted,
            known,
            chain: Chain::Closed,
            foreign: Foreign {
                allocs: foreign,
                since: now,
            },
            grace,
        }
    }

    /// The watch is over; the next one starts with a complete map.
    pub fn close(&mut self) {
        self.chain = Chain::Closed;
    }

    /// A part of the complete map.
    ///
    /// # Errors
    /// Where the watch must be closed.
    pub fn on_map(
        &mut self,
        map: WatchMap,
        now: Moment,
    ) -> Result<Vec<WatchStep>, DisconnectReason> {
        let result = self.collect_map(map, now);
        if result.is_err() {
            self.close();
        }
        result
    }

    /// A change of desired state.
    ///
    /// # Errors
    /// Where the watch must be closed: the delta does not go on from exactly where the chain is.
    pub fn on_delta(&mut self, delta: WatchDelta) -> Result<Vec<WatchStep>, DisconnectReason> {
        let result = self.follow(delta);
        if result.is_err() {
            self.close();
        }
        result
    }

    /// An operator says that what the new incarnation does not know may go.
    pub fn release_foreign(&mut self) -> Vec<AllocId> {
        let released = std::mem::take(&mut self.foreign.allocs);
        for alloc in &released {
            self.known.remove(alloc);
        }
        released.into_iter().collect()
    }

    /// What may go because its grace is over.
    pub fn on_timeout(&mut self, now: Moment) -> Vec<AllocId> {
        match self.poll_timeout() {
            Some(at) if at <= now => self.release_foreign(),
            Some(_) | None => Vec::new(),
        }
    }

    /// When [`Self::on_timeout`] is next due.
    pub fn poll_timeout(&self) -> Option<Moment> {
        let grace = self.grace.filter(|_| !self.foreign.allocs.is_empty())?;
        Some(self.foreign.since.after(grace))
    }

    /// What the node had been told, and has journaled or is about to.
    pub fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// The version that the node was told of an allocation.
    pub fn version(&self, alloc: AllocId) -> Option<u64> {
        self.known.get(&alloc).copied()
    }

    /// Everything that the node was told of, with the version.
    pub fn versions(&self) -> Vec<(AllocId, u64)> {
        let known = self.known.iter();
        known.map(|(alloc, version)| (*alloc, *version)).collect()
    }

    /// Allocations that go on although the control plane's present incarnation does not know them.
    pub fn foreign(&self) -> impl Iterator<Item = AllocId> {
        self.foreign.allocs.iter().copied()
    }
}
