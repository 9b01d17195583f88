//! The watch's chain: a map in parts, then deltas that go on from exactly where it is.

use std::collections::{BTreeMap, BTreeSet};

use protocol_model::{AllocId, Incarnation};

use super::{AllocSet, Foreign, WatchStep};
use crate::effect::DisconnectReason;
use crate::event::{WatchDelta, WatchMap};
use crate::key::Watermark;
use crate::time::Moment;

/// Where the watch stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Chain {
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
pub(super) enum Filling {
    /// They may: they repeat nothing that would be done twice, for versions only rise.
    Open,
    /// The chain has gone on.
    Over,
}

impl AllocSet {
    pub(super) fn collect_map(
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
        self.act_up_to(at)?;
        let unknown: Vec<AllocId> = self
            .known
            .keys()
            .filter(|id| !map.contains_key(id))
            .copied()
            .collect();
        let mut steps = Vec::new();
        let foreign_before = self.foreign.allocs.clone();
        if self.watermark.incarnation == Some(incarnation) {
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

    pub(super) fn follow(&mut self, delta: WatchDelta) -> Result<Vec<WatchStep>, DisconnectReason> {
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
            incarnation: _,
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
        self.acted.index = self.acted.index.max(index);
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

    /// A complete map is acted on, unless something newer of its history was: at least what the
    /// watermark has come to.
    fn act_up_to(&mut self, at: Watermark) -> Result<(), DisconnectReason> {
        for newest in [self.watermark, self.acted] {
            if newest.incarnation == at.incarnation && at.index < newest.index {
                let (received, expected) = (at.index, newest.index);
                return Err(DisconnectReason::WatchBroken { received, expected });
            }
        }
        self.acted = at;
        Ok(())
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
