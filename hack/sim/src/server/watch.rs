//! The watch of one node: the server's `gateway/watch.rs`, without the bytes. What is told is
//! decided by the product's own part.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::watch::{Chain, Encode, LinkSizes, Map, is_ready};
use controlplane_state::{SessionEpoch, Snapshot};
use noded_core::Watermark;
use noded_core::event::{DesiredAlloc, WatchDelta, WatchMap};
use protocol_model::{AllocId, Allocation, Job, SpecHash};

use crate::event::{ServerIx, ToNode};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::net::{ConnId, Stream};
use crate::node_ids::node_id;
use crate::world::World;

/// Allocations in one part of the map; small, so that maps have several parts.
const MAP_PART_MAX: usize = 16;
/// Allocations in one link; few, so that there are several.
const LINK_ALLOCS: LinkSizes = LinkSizes {
    wanted: 7,
    max: usize::MAX,
};

/// A watch that a node opened.
#[derive(Debug)]
pub(super) struct Watch {
    epoch: SessionEpoch,
    /// What the node named as its own, until the chain begins with it.
    known: Option<BTreeMap<AllocId, u64>>,
    /// None until the node is ready here.
    chain: Option<Chain>,
}

impl World {
    pub(super) fn open_watch(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        epoch: SessionEpoch,
        known: Option<BTreeMap<AllocId, u64>>,
    ) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let node = session.node;
        let holds = server.sessions.own(node, epoch, conn).is_some();
        if !holds || session.watch.is_some() {
            return self.end_stream(ix, conn);
        }
        session.watch = Some(Watch {
            epoch,
            known,
            chain: None,
        });
        self.turn_watch(ix, conn);
    }

    /// Sends what is new, or begins where the node has become ready.
    pub(super) fn turn_watch(&mut self, ix: ServerIx, conn: ConnId) {
        let hasty = self.mutant == Some(Mutant::WatchBeforeSync);
        let mute = self.mutant == Some(Mutant::SilentWatch);
        let untold = self.mutant == Some(Mutant::PredecessorUntold);
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
        let told = match (&mut watch.chain, ready) {
            (None, false) => return,
            (Some(_), false) => return self.end_stream(ix, conn),
            (Some(_), true) if mute => return,
            (Some(chain), true) => messages(chain, &snapshot, false),
            (none, true) => {
                let entry = server.sessions.own(node, epoch, conn);
                let reported = entry.and_then(|entry| entry.known.clone());
                let mut chain = match watch.known.take().map(Arc::new).or(reported) {
                    Some(known) => Chain::new(node_id(node), &known),
                    None => Chain::after_resume(node_id(node), &snapshot),
                };
                let told = messages(&mut chain, &snapshot, true);
                *none = Some(chain);
                told
            }
        };
        let Ok(messages) = told else {
            return self.end_stream(ix, conn);
        };
        for mut message in messages {
            match &mut message {
                ToNode::Map(map) => {
                    let index = map.at.index;
                    self.observe(Observation::MapSent { node, epoch, index });
                }
                ToNode::Delta(delta) if untold => {
                    for desired in &mut delta.changed {
                        desired.alloc.previous_allocation = None;
                    }
                }
                _ => {}
            }
            self.send_to_node(conn, Stream::Watch, message);
        }
    }
}

/// The map in parts, and links, as a node takes them in.
fn messages(chain: &mut Chain, snapshot: &Snapshot, begin: bool) -> Result<Vec<ToNode>, String> {
    let mut messages = Vec::new();
    if begin {
        messages.extend(parts(&chain.map(snapshot)));
    }
    let links = chain.links(snapshot, &mut AsIs, LINK_ALLOCS)?;
    messages.extend(links.into_iter().map(|link| {
        ToNode::Delta(Box::new(WatchDelta {
            previous_index: link.previous_index,
            index: link.index,
            specs: link.specs,
            changed: link.changed,
            removed: link.removed,
        }))
    }));
    Ok(messages)
}

fn parts(map: &Map) -> Vec<ToNode> {
    let at = Watermark {
        incarnation: map.incarnation,
        index: map.index,
    };
    let mut parts: Vec<&[(AllocId, u64)]> = map.allocs.chunks(MAP_PART_MAX).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let last = parts.len() - 1;
    let parts = parts.into_iter().enumerate().map(|(number, part)| {
        ToNode::Map(Box::new(WatchMap {
            at,
            part: u32::try_from(number).unwrap_or(u32::MAX),
            last: number == last,
            allocs: part.to_vec(),
        }))
    });
    parts.collect()
}

/// Nothing is written; every allocation counts one.
struct AsIs;

impl Encode for AsIs {
    type Spec = (SpecHash, Arc<Job>);
    type Alloc = DesiredAlloc;

    fn spec(&mut self, hash: SpecHash, spec: &Arc<Job>) -> Result<(Self::Spec, usize), String> {
        Ok(((hash, Arc::clone(spec)), 0))
    }

    fn alloc(&mut self, alloc: Allocation, root_key: u32) -> Result<(DesiredAlloc, usize), String> {
        let told = DesiredAlloc {
            root_key,
            version: alloc.alloc_modify_index,
            spec: alloc.spec,
            alloc,
        };
        Ok((told, 1))
    }
}
