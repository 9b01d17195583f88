//! The watch: what is wanted of a node's allocations, pushed as a chain.
//!
//! ```text
//!   StreamHello --> WatchMap (complete, at i) --> WatchDelta (i -> j) --> WatchDelta (j -> k)
//! ```
//!
//! The map names every allocation that the node may have; what the node already acts on in that
//! version is not sent again. A delta holds what changed since the index before it. Allocations
//! that the node is done with and does not know any more are left out: it has nothing to do for
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controlplane_state::{SessionEpoch, Snapshot};
use protocol_model::{AllocId, AllocMetric, Allocation, NodeId, NodeStatus, SpecHash};
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::{FrameMessage, to_frame};
use protocol_wire::v1;
use tokio::time::timeout;

use super::streams::{self, OwnStream};
use super::{Gateway, NODE_FRAME_BYTES_MAX};

/// Allocations in one part of the map.
const MAP_PART_MAX: usize = 10_000;
/// How long a watch waits for its session's complete report to be taken in: as long as a node may
/// owe it.
const READY_MAX: Duration = Duration::from_secs(30);
/// Bytes of allocations and specifications after which a delta ends, well below a frame's limit.
const DELTA_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes that one delta may not reach where it cannot end: between changes of one index. What is
/// larger is told by a new watch, whose map lets its deltas end anywhere.
const FRAME_BYTES_MAX: usize = 12 * 1024 * 1024;

pub(super) async fn serve(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) {
    if let Err(reason) = run(gateway, send, recv, connection).await {
        tracing::debug!(%reason, "watch ended");
    }
}

async fn run(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) -> Result<(), String> {
    let mut reader = FrameReader::new(recv, 1024);
    let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
    let OwnStream {
        node, epoch, entry, ..
    } = streams::own(gateway, &mut reader, connection).await?;
    // Subscribed before the first look, so that nothing falls between.
    let mut news = gateway.cluster.hub().node_news(node);
    let mut closed = gateway.cluster.hub().watch();
    let ready = timeout(
        READY_MAX,
        closed.wait_for(|snapshot| is_ready(snapshot, node, epoch)),
    );
    let snapshot = tokio::select! {
        ready = ready => ready
            .map_err(|_| format!("session {epoch} of node {node} was not ready in {READY_MAX:?}"))?
            .map_err(|_| "the state is gone")?
            .clone(),
        _ = reader.read() => return Ok(()),
    };
    let mut chain = Chain::new(node, &entry.known);
    for frame in chain.map(&snapshot) {
        write(&mut writer, &frame).await?;
    }
    for delta in chain.deltas(&snapshot)? {
        write(&mut writer, &delta).await?;
    }
    loop {
        tokio::select! {
            changed = news.changed() => changed.map_err(|_| "nobody tells the news any more")?,
            // The node never writes here again: whatever comes is the stream's end.
            _ = reader.read() => return Ok(()),
        }
        let snapshot = gateway.cluster.snapshot();
        if !is_ready(&snapshot, node, epoch) {
            return Err(format!("session {epoch} of node {node} is over"));
        }
        for delta in chain.deltas(&snapshot)? {
            write(&mut writer, &delta).await?;
        }
    }
}

/// Desired state is told only to a session whose complete report was taken in.
fn is_ready(snapshot: &Snapshot, node: NodeId, epoch: SessionEpoch) -> bool {
    snapshot.node(node).is_some_and(|record| {
        record.session.epoch == epoch
            && record.session.synced_index > 0
            && record.node.status == NodeStatus::Ready
    })
}

async fn write<M: FrameMessage>(writer: &mut FrameWriter, message: &M) -> Result<(), String> {
    let (kind, body) = to_frame(message);
    writer
        .write(kind, body)
        .await
        .map_err(|error| error.to_string())
}

/// What a node has been told, and how to tell it the rest.
struct Chain {
    node: NodeId,
    /// Told versions; 0 = in the map, but its content was never sent.
    told: BTreeMap<AllocId, u64>,
    specs: BTreeSet<SpecHash>,
    index: u64,
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

    /// The complete map, in parts.
    fn map(&mut self, snapshot: &Snapshot) -> Vec<v1::WatchMap> {
        let wanted: Vec<(AllocId, u64)> = snapshot
            .allocs_on_node(self.node)
            .filter(|alloc| self.concerns(alloc))
            .map(|alloc| (alloc.id, alloc.alloc_modify_index))
            .collect();
        let ids: BTreeSet<AllocId> = wanted.iter().map(|(id, _)| *id).collect();
        self.told.retain(|id, _| ids.contains(id));
        self.index = snapshot.index();
        let at = v1::Watermark {
            incarnation: snapshot
                .cluster()
                .incarnation
                .map(|incarnation| Bytes::copy_from_slice(incarnation.as_bytes()))
                .unwrap_or_default(),
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
            .map(|(number, part)| v1::WatchMap {
                at: Some(at.clone()),
                part: u32::try_from(number).unwrap_or(u32::MAX),
                last: number == last,
                allocs: part
                    .iter()
                    .map(|(id, version)| v1::AllocVersion {
                        alloc_id: Bytes::copy_from_slice(id.as_bytes()),
                        version: *version,
                    })
                    .collect(),
            })
            .collect()
    }

    fn concerns(&self, alloc: &Allocation) -> bool {
        !alloc.client_terminal() || self.told.contains_key(&alloc.id)
    }

    /// What changed since the last look, in links of bounded size. No change, no link.
    fn deltas(&mut self, snapshot: &Snapshot) -> Result<Vec<v1::WatchDelta>, String> {
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
            return Ok(Vec::new());
        }
        changed.sort_by_key(|alloc| (alloc.alloc_modify_index, alloc.id));
        for id in &removed {
            self.told.remove(id);
        }
        let mut links = Vec::new();
        let mut link = Link::default();
        for alloc in changed {
            // A link ends between two indexes, so that each has an index of its own, or where it
            // fills the map in: then all have the map's.
            let index = alloc.alloc_modify_index;
            let may_end = link.newest < index || index <= self.index;
            if link.bytes > FRAME_BYTES_MAX && !may_end {
                return Err(format!(
                    "more than {FRAME_BYTES_MAX} bytes changed at index {index}: a new watch \
                     tells them in parts"
                ));
            }
            if link.bytes > DELTA_BYTES_MAX && may_end {
                let full = std::mem::take(&mut link);
                links.push(self.close(full.newest, full, &[]));
            }
            link.newest = alloc.alloc_modify_index;
            self.add(&mut link, alloc, snapshot)?;
        }
        links.push(self.close(snapshot.index(), link, &removed));
        Ok(links)
    }

    fn add(
        &mut self,
        link: &mut Link,
        alloc: &Arc<Allocation>,
        snapshot: &Snapshot,
    ) -> Result<(), String> {
        if self.specs.insert(alloc.spec) {
            let spec = snapshot
                .spec(alloc.spec)
                .ok_or_else(|| format!("specification {} is not in the state", alloc.spec))?;
            let json = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
            let packed = zstd::encode_all(json.as_slice(), 1).map_err(|error| error.to_string())?;
            link.bytes += packed.len();
            link.specs.push(v1::JobSpec {
                hash: Bytes::copy_from_slice(&alloc.spec.0),
                json_zstd: packed.into(),
            });
        }
        // Why it was placed here does not concern the node.
        let told = Allocation {
            metrics: AllocMetric::default(),
            ..Allocation::clone(alloc)
        };
        let json = serde_json::to_vec(&told).map_err(|error| error.to_string())?;
        link.bytes += json.len();
        link.changed.push(v1::DesiredAlloc {
            alloc_id: Bytes::copy_from_slice(alloc.id.as_bytes()),
            version: alloc.alloc_modify_index,
            spec_hash: Bytes::copy_from_slice(&alloc.spec.0),
            json: json.into(),
        });
        self.told.insert(alloc.id, alloc.alloc_modify_index);
        Ok(())
    }

    fn close(&mut self, index: u64, link: Link, removed: &[AllocId]) -> v1::WatchDelta {
        // The chain never goes back: what fills a map in was changed before it, and stays at its
        // index.
        let index = index.max(self.index);
        let previous_index = std::mem::replace(&mut self.index, index);
        v1::WatchDelta {
            previous_index,
            index,
            specs: link.specs,
            changed: link.changed,
            removed: removed
                .iter()
                .map(|id| Bytes::copy_from_slice(id.as_bytes()))
                .collect(),
        }
    }
}

#[derive(Default)]
struct Link {
    specs: Vec<v1::JobSpec>,
    changed: Vec<v1::DesiredAlloc>,
    bytes: usize,
    newest: u64,
}
