//! The watch: the server's `gateway/watch.rs`, without the bytes. What is told is decided by the
//! product's own part.

use std::sync::Arc;

use controlplane_state::watch::{Chain, Encode, LinkSizes, Map, is_ready};
use controlplane_state::{SessionEpoch, Snapshot};
use noded_core::Watermark;
use noded_core::event::{DesiredAlloc, WatchDelta, WatchMap};
use protocol_model::{AllocId, Allocation, Job, SpecHash};

use super::Watch;
use crate::ids::NODE;
use crate::mutant::Mutant;
use crate::net::{ConnId, ServerIx, Stream, ToNode};
use crate::world::World;

/// Whatever is new is one link.
const ONE_LINK: LinkSizes = LinkSizes {
    wanted: 100,
    max: usize::MAX,
};

impl World {
    pub(super) fn open_watch(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        epoch: SessionEpoch,
        known: Option<Vec<(AllocId, u64)>>,
    ) {
        let server = &mut self.servers[ix];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let held = server.session.as_ref();
        let holds = held.is_some_and(|held| held.epoch == epoch && held.conn == conn);
        if !holds || session.watch.is_some() {
            return self.end_stream(ix, conn);
        }
        session.watch = Some(Watch {
            epoch,
            known: known.map(|known| Arc::new(known.into_iter().collect())),
            chain: None,
        });
        self.turn_watch(ix, conn);
    }

    /// Sends what is new, or begins where the node has become ready.
    pub(super) fn turn_watch(&mut self, ix: ServerIx, conn: ConnId) {
        let hasty = self.mutant == Some(Mutant::WatchBeforeSync);
        let server = &mut self.servers[ix];
        let snapshot = server.snapshot.clone();
        let known = server.session.as_ref().and_then(|it| it.known.clone());
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        if hasty && session.is_open() && session.watch.is_none() {
            let epoch = session.epoch;
            session.watch = Some(Watch {
                epoch,
                known: None,
                chain: None,
            });
        }
        let Some(watch) = session.watch.as_mut() else {
            return;
        };
        let ready = hasty || is_ready(&snapshot, NODE, watch.epoch);
        let epoch = watch.epoch;
        let told = match (&mut watch.chain, ready) {
            (None, false) => return,
            (Some(_), false) => return self.end_stream(ix, conn),
            (Some(chain), true) => links(chain, &snapshot),
            (none, true) => {
                let mut chain = match watch.known.clone().or(known) {
                    Some(known) => Chain::new(NODE, &known),
                    None => Chain::after_resume(NODE, &snapshot),
                };
                let map = whole(chain.map(&snapshot));
                let links = links(&mut chain, &snapshot);
                *none = Some(chain);
                self.watch_map(epoch, map.at.index);
                self.tell(ix, conn, Stream::Watch, ToNode::Map(map));
                links
            }
        };
        let Ok(links) = told else {
            return self.end_stream(ix, conn);
        };
        for link in links {
            self.tell(ix, conn, Stream::Watch, ToNode::Delta(link));
        }
    }
}

fn links(chain: &mut Chain, snapshot: &Snapshot) -> Result<Vec<WatchDelta>, String> {
    let links = chain.links(snapshot, &mut AsIs, ONE_LINK)?;
    let links = links.into_iter().map(|link| WatchDelta {
        previous_index: link.previous_index,
        index: link.index,
        specs: link.specs,
        changed: link.changed,
        removed: link.removed,
    });
    Ok(links.collect())
}

fn whole(map: Map) -> WatchMap {
    WatchMap {
        at: Watermark {
            incarnation: map.incarnation,
            index: map.index,
        },
        part: 0,
        last: true,
        allocs: map.allocs,
    }
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
