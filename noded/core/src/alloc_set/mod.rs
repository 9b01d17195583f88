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

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_model::{AllocId, Incarnation};

use crate::effect::DisconnectReason;
use crate::event::{DesiredAlloc, WatchDelta, WatchMap};
use crate::key::Watermark;
use crate::time::Moment;

/// Where the watch stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Chain {
    /// There is none, or it broke.
    Closed,
    /// Parts of the complete map arrive.
    Map {
        at: Watermark,
        next_part: u32,
        allocs: BTreeMap<AllocId, u64>,
    },
    /// Deltas arrive. `missing` is what the map names in a version that has not come yet.
    Following {
        index: u64,
        incarnation: Incarnation,
        missing: BTreeSet<AllocId>,
        filling: Filling,
    },
}

/// Whether deltas may still bring what the map names, at the map's own index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Filling {
    /// They may: they repeat nothing that would be done twice, for versions only rise.
    Open,
    /// The chain has gone on.
    Over,
}

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
#[derive(Debug)]
pub struct AllocSet {
    watermark: Watermark,
    /// Every allocation that the node was told of, with its version.
    known: BTreeMap<AllocId, u64>,
    chain: Chain,
    foreign: Foreign,
    grace: Option<Duration>,
}

impl AllocSet {
    /// The set as the journal left it. `grace` is how long allocations that another incarnation
    /// does not know go on; `None` = for ever. A daemon's start begins it anew.
    pub(crate) fn new(
        watermark: Watermark,
        known: BTreeMap<AllocId, u64>,
        foreign: BTreeSet<AllocId>,
        grace: Option<Duration>,
        now: Moment,
    ) -> Self {
        Self {
            watermark,
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

    /// Allocations that go on although the control plane's present incarnation does not know them.
    pub fn foreign(&self) -> impl Iterator<Item = AllocId> {
        self.foreign.allocs.iter().copied()
    }

    fn collect_map(
        &mut self,
        map: WatchMap,
        now: Moment,
    ) -> Result<Vec<WatchStep>, DisconnectReason> {
        let WatchMap {
            at,
            part,
            last,
            allocs,
        } = map;
        let mut collected = match (&mut self.chain, part) {
            (Chain::Closed, 0) => BTreeMap::new(),
            (
                Chain::Map {
                    at: first,
                    next_part,
                    allocs,
                },
                part,
            ) if *next_part == part && *first == at => std::mem::take(allocs),
            (Chain::Closed | Chain::Map { .. } | Chain::Following { .. }, _) => {
                return Err(DisconnectReason::MapMalformed);
            }
        };
        collected.extend(allocs);
        if last {
            return self.begin_following(at, &collected, now);
        }
        self.chain = Chain::Map {
            at,
            next_part: part + 1,
            allocs: collected,
        };
        Ok(Vec::new())
    }

    fn begin_following(
        &mut self,
        at: Watermark,
        map: &BTreeMap<AllocId, u64>,
        now: Moment,
    ) -> Result<Vec<WatchStep>, DisconnectReason> {
        let Some(incarnation) = at.incarnation else {
            return Err(DisconnectReason::MapMalformed);
        };
        let unknown: Vec<AllocId> = self
            .known
            .keys()
            .filter(|id| !map.contains_key(id))
            .copied()
            .collect();
        let mut steps = Vec::new();
        let foreign_before = self.foreign.allocs.clone();
        if self.watermark.incarnation == Some(incarnation) {
            if at.index < self.watermark.index {
                let (received, expected) = (at.index, self.watermark.index);
                return Err(DisconnectReason::WatchBroken { received, expected });
            }
            for alloc in unknown {
                // What an earlier incarnation left stays under its grace.
                if !self.foreign.allocs.contains(&alloc) {
                    self.known.remove(&alloc);
                    steps.push(WatchStep::Destroy(alloc));
                }
            }
        } else {
            let allocs: BTreeSet<AllocId> = unknown.into_iter().collect();
            // A map that was broken off before the watermark moved begins no second grace.
            if allocs != self.foreign.allocs {
                self.foreign = Foreign { allocs, since: now };
            }
            // Another history counts otherwise: every version of it is news.
            for version in self.known.values_mut() {
                *version = 0;
            }
        }
        self.foreign.allocs.retain(|alloc| !map.contains_key(alloc));
        steps.extend(self.foreign_changed(&foreign_before));
        let (missing, confirmed): (Vec<AllocId>, Vec<AllocId>) = map
            .keys()
            .partition(|alloc| self.known.get(alloc) < map.get(alloc));
        let missing = missing.into_iter().collect();
        self.chain = Chain::Following {
            index: at.index,
            incarnation,
            missing,
            filling: Filling::Open,
        };
        steps.push(WatchStep::Confirmed(confirmed));
        steps.extend(self.move_watermark());
        Ok(steps)
    }

    fn follow(&mut self, delta: WatchDelta) -> Result<Vec<WatchStep>, DisconnectReason> {
        let WatchDelta {
            previous_index,
            index,
            specs: _,
            changed,
            removed,
        } = delta;
        let Chain::Following {
            index: at,
            missing,
            filling,
            ..
        } = &mut self.chain
        else {
            return Err(DisconnectReason::MapMalformed);
        };
        let fills = index == previous_index && *filling == Filling::Open;
        if previous_index != *at || !(index > previous_index || fills) {
            return Err(DisconnectReason::WatchBroken {
                received: previous_index,
                expected: *at,
            });
        }
        if !fills {
            *filling = Filling::Over;
        }
        *at = index;
        let mut steps = Vec::new();
        let foreign_before = self.foreign.allocs.clone();
        for desired in changed {
            let alloc = desired.alloc.id;
            missing.remove(&alloc);
            self.foreign.allocs.remove(&alloc);
            let newer = self
                .known
                .get(&alloc)
                .is_none_or(|known| *known < desired.version);
            if newer {
                self.known.insert(alloc, desired.version);
                steps.push(WatchStep::Upsert(Box::new(desired)));
            }
        }
        for alloc in removed {
            missing.remove(&alloc);
            self.foreign.allocs.remove(&alloc);
            if self.known.remove(&alloc).is_some() {
                steps.push(WatchStep::Destroy(alloc));
            }
        }
        steps.extend(self.foreign_changed(&foreign_before));
        steps.extend(self.move_watermark());
        Ok(steps)
    }

    fn foreign_changed(&self, before: &BTreeSet<AllocId>) -> Option<WatchStep> {
        let now = &self.foreign.allocs;
        (now != before).then(|| WatchStep::Foreign(now.iter().copied().collect()))
    }

    /// The watermark stands for everything before it, so it waits until nothing is missing.
    fn move_watermark(&mut self) -> Option<WatchStep> {
        let Chain::Following {
            index,
            incarnation,
            missing,
            ..
        } = &self.chain
        else {
            return None;
        };
        if !missing.is_empty() {
            return None;
        }
        self.watermark = Watermark {
            incarnation: Some(*incarnation),
            index: *index,
        };
        Some(WatchStep::Moved(self.watermark))
    }
}

#[cfg(test)]
mod tests;
