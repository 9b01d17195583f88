//! The watch of one node: a complete map, then links of a chain. The rules are those of the
//! server's `gateway/watch.rs`, without the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::{SessionEpoch, Snapshot};
use noded_core::Watermark;
use noded_core::event::{DesiredAlloc, WatchDelta, WatchMap};
use protocol_model::{AllocId, AllocMetric, Allocation, Job, NodeId, NodeStatus, SpecHash};

use crate::event::{ServerIx, ToNode};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::net::{ConnId, Stream};
use crate::node_ids::node_id;
use crate::world::World;

/// Allocations in one part of the map; small, so that maps have several parts.
const MAP_PART_MAX: usize = 16;
/// Allocations in one link; small, so that there are several.
const LINK_ALLOCS_MAX: usize = 8;

/// A watch that a node opened.
#[derive(Debug)]
pub(super) struct Watch {
    epoch: SessionEpoch,
    /// None until the node is ready here.
    chain: Option<Chain>,
}

/// What a node has been told, and how to tell it the rest.
#[derive(Debug)]
struct Chain {
    node: NodeId,
    told: BTreeMap<AllocId, u64>,
    specs: BTreeSet<SpecHash>,
    index: u64,
}

/// Desired state is told only to a session whose complete report was taken in.
fn is_ready(snapshot: &Snapshot, node: NodeId, epoch: SessionEpoch) -> bool {
    snapshot.node(node).is_some_and(|record| {
        record.session.epoch == epoch
            && record.session.synced_index > 0
            && record.node.status == NodeStatus::Ready
    })
}

impl World {
    pub(super) fn open_watch(&mut self, ix: ServerIx, conn: ConnId, epoch: SessionEpoch) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let node = session.node;
        let holds = server
            .sessions
            .get(&node)
            .is_some_and(|entry| entry.epoch == epoch && entry.conn == conn);
        if !holds || session.watch.is_some() {
            return self.end_stream(ix, conn);
        }
        session.watch = Some(Watch { epoch, chain: None });
        self.turn_watch(ix, conn);
    }

    /// Sends what is new, or begins where the node has become ready.
    pub(super) fn turn_watch(&mut self, ix: ServerIx, conn: ConnId) {
        let hasty = self.mutant == Some(Mutant::WatchBeforeSync);
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let node = session.node;
        let Some(watch) = session.watch.as_mut() else {
            return;
        };
        let snapshot = server.snapshot.clone();
        let ready = hasty || is_ready(&snapshot, node_id(node), watch.epoch);
        let epoch = watch.epoch;
        let mut messages = Vec::new();
        match (&mut watch.chain, ready) {
            (None, false) => return,
            (Some(_), false) => return self.end_stream(ix, conn),
            (Some(chain), true) => messages.extend(chain.deltas(&snapshot)),
            (none, true) => {
                let known = server
                    .sessions
                    .get(&node)
                    .map(|entry| Arc::clone(&entry.known));
                let mut chain = Chain::new(node_id(node), &known.unwrap_or_default());
                messages.extend(chain.map(&snapshot));
                messages.extend(chain.deltas(&snapshot));
                *none = Some(chain);
            }
        }
        for message in messages {
            if let ToNode::Map(map) = &message {
                let index = map.at.index;
                self.observe(Observation::MapSent { node, epoch, index });
            }
            self.send_to_node(conn, Stream::Watch, message);
        }
    }
}

impl Chain {
    fn new(node: NodeId, known: &BTreeMap<AllocId, u64>) -> Self {
        Self {
            node,
            told: known.clone(),
            specs: BTreeSet::new(),
            index: 0,
        }
    }

    fn concerns(&self, alloc: &Allocation) -> bool {
        !alloc.client_terminal() || self.told.contains_key(&alloc.id)
    }

    fn map(&mut self, snapshot: &Snapshot) -> Vec<ToNode> {
        let wanted: Vec<(AllocId, u64)> = snapshot
            .allocs_on_node(self.node)
            .filter(|alloc| self.concerns(alloc))
            .map(|alloc| (alloc.id, alloc.alloc_modify_index))
            .collect();
        let ids: BTreeSet<AllocId> = wanted.iter().map(|(id, _)| *id).collect();
        self.told.retain(|id, _| ids.contains(id));
        self.index = snapshot.index();
        let at = Watermark {
            incarnation: snapshot.cluster().incarnation,
            index: self.index,
        };
        let mut parts: Vec<&[(AllocId, u64)]> = wanted.chunks(MAP_PART_MAX).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len() - 1;
        parts
            .into_iter()
            .enumerate()
            .map(|(number, part)| {
                ToNode::Map(Box::new(WatchMap {
                    at,
                    part: u32::try_from(number).unwrap_or(u32::MAX),
                    last: number == last,
                    allocs: part.to_vec(),
                }))
            })
            .collect()
    }

    fn deltas(&mut self, snapshot: &Snapshot) -> Vec<ToNode> {
        let present: BTreeMap<AllocId, &Arc<Allocation>> = snapshot
            .allocs_on_node(self.node)
            .filter(|alloc| self.concerns(alloc))
            .map(|alloc| (alloc.id, alloc))
            .collect();
        let removed: Vec<AllocId> = self
            .told
            .keys()
            .filter(|id| !present.contains_key(id))
            .copied()
            .collect();
        let mut changed: Vec<&Arc<Allocation>> = present
            .values()
            .copied()
            .filter(|alloc| {
                self.told
                    .get(&alloc.id)
                    .is_none_or(|told| *told < alloc.alloc_modify_index)
            })
            .collect();
        if changed.is_empty() && removed.is_empty() {
            return Vec::new();
        }
        changed.sort_by_key(|alloc| (alloc.alloc_modify_index, alloc.id));
        for id in &removed {
            self.told.remove(id);
        }
        let mut links = Vec::new();
        let mut link = Link::default();
        for alloc in changed {
            let newest = link.changed.last().map_or(0, |it| it.version);
            // A link ends only between two indexes, so that each has an index of its own.
            if link.changed.len() >= LINK_ALLOCS_MAX && newest < alloc.alloc_modify_index {
                let full = std::mem::take(&mut link);
                links.push(self.close(newest, full, Vec::new()));
            }
            self.add(&mut link, alloc, snapshot);
        }
        links.push(self.close(snapshot.index(), link, removed));
        links
    }

    fn add(&mut self, link: &mut Link, alloc: &Arc<Allocation>, snapshot: &Snapshot) {
        if self.specs.insert(alloc.spec)
            && let Some(spec) = snapshot.spec(alloc.spec)
        {
            link.specs.push((alloc.spec, Arc::clone(spec)));
        }
        let told = Allocation {
            metrics: AllocMetric::default(),
            ..Allocation::clone(alloc)
        };
        link.changed.push(DesiredAlloc {
            version: alloc.alloc_modify_index,
            spec: alloc.spec,
            alloc: told,
        });
        self.told.insert(alloc.id, alloc.alloc_modify_index);
    }

    fn close(&mut self, index: u64, link: Link, removed: Vec<AllocId>) -> ToNode {
        let index = index.max(self.index);
        let previous_index = std::mem::replace(&mut self.index, index);
        ToNode::Delta(Box::new(WatchDelta {
            previous_index,
            index,
            specs: link.specs,
            changed: link.changed,
            removed,
        }))
    }
}

#[derive(Default)]
struct Link {
    specs: Vec<(SpecHash, Arc<Job>)>,
    changed: Vec<DesiredAlloc>,
}
