//! The watch: what is wanted of a node's allocations, pushed as a chain. What is told is decided in
//! [`controlplane_state::watch`]; here it is written.
//!
//! ```text
//!   StreamHello (WatchKnown) --> WatchMap, at i --> WatchDelta (i -> j) --> WatchDelta (j -> k)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controlplane_state::Snapshot;
use controlplane_state::watch::{Chain, Encode, LinkSizes, Map, is_ready};
use protocol_model::{AllocId, Allocation, Job, NodeId, SpecHash};
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::convert::alloc_id;
use protocol_wire::v1;
use tokio::time::timeout;

use super::frames::{parse, write};
use super::specs::SpecCache;
use super::streams::{self, OwnStream};
use super::{Gateway, NODE_FRAME_BYTES_MAX};

/// Allocations in one part of the map.
const MAP_PART_MAX: usize = 10_000;
/// How long a watch waits for its session's complete report to be taken in: as long as a node may
/// owe it.
const READY_MAX: Duration = Duration::from_secs(30);
/// Watches that look for news at once. A plan wakes the watch of every node that it is about, and a
/// thousand tasks that are ready at once keep everything else of the runtime waiting until the last
/// has had its turn: heartbeats, urgent updates, the log itself. So whatever else is ready is done
/// between two of them: nodes are told as fast as what they answer is taken in.
pub(super) const TURNS: usize = 1;
/// What a node says of what it has, where it says it: the versions of some 200,000 allocations.
const KNOWN_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a node may take to say it.
const KNOWN_MAX: Duration = Duration::from_secs(10);
/// Bytes of allocations and specifications in one delta, well below a frame's limit. The larger
/// number holds where a delta cannot end: between changes of one index.
const LINK_BYTES: LinkSizes = LinkSizes {
    wanted: 4 * 1024 * 1024,
    max: 12 * 1024 * 1024,
};

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
    let mut reader = FrameReader::new(recv, KNOWN_BYTES_MAX);
    let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
    let own = streams::own(gateway, &mut reader, connection).await?;
    let known = known(&own, &mut reader).await?;
    let OwnStream { node, epoch, .. } = own;
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
    let mut chain = match &known {
        Some(known) => Chain::new(node, known),
        None => Chain::after_resume(node, &snapshot),
    };
    let map = parts(&chain.map(&snapshot));
    let first = deltas(&mut chain, &snapshot, gateway, node)?;
    // A snapshot keeps everything that was ever in it, and a watch may last for months.
    drop(snapshot);
    for frame in map {
        write(&mut writer, &frame).await?;
    }
    for delta in first {
        write(&mut writer, &delta).await?;
    }
    loop {
        tokio::select! {
            changed = news.changed() => changed.map_err(|_| "the server is shutting down")?,
            // The node never writes here again: whatever comes is the stream's end.
            _ = reader.read() => return Ok(()),
        }
        let turn = gateway.watch_turns.acquire().await;
        tokio::task::yield_now().await;
        let snapshot = gateway.cluster.snapshot();
        if !is_ready(&snapshot, node, epoch) {
            return Err(format!("session {epoch} of node {node} is over"));
        }
        let links = deltas(&mut chain, &snapshot, gateway, node)?;
        // A node that reads slowly holds nobody else up, and nothing of the past.
        drop(snapshot);
        drop(turn);
        for delta in links {
            write(&mut writer, &delta).await?;
        }
    }
}

/// The versions that the node acts on, where it said so: in its complete report, or here, where the
/// session went on without one.
async fn known(
    own: &OwnStream,
    reader: &mut FrameReader,
) -> Result<Option<Arc<BTreeMap<AllocId, u64>>>, String> {
    if !own.hello.names_known {
        return Ok(own.entry.known.clone());
    }
    let frame = timeout(KNOWN_MAX, reader.expect())
        .await
        .map_err(|_| format!("it did not say what it has within {KNOWN_MAX:?}"))?
        .map_err(|error| error.to_string())?;
    let known: v1::WatchKnown = parse(frame.kind, frame.body)?;
    let versions = known.allocs.iter().map(|known| {
        let id = alloc_id("allocs", &known.alloc_id).map_err(|error| error.to_string())?;
        Ok((id, known.version))
    });
    Ok(Some(Arc::new(versions.collect::<Result<_, String>>()?)))
}

/// The complete map, in parts.
fn parts(map: &Map) -> Vec<v1::WatchMap> {
    let at = v1::Watermark {
        incarnation: map
            .incarnation
            .map(|incarnation| Bytes::copy_from_slice(incarnation.as_bytes()))
            .unwrap_or_default(),
        index: map.index,
    };
    let mut parts: Vec<&[(AllocId, u64)]> = map.allocs.chunks(MAP_PART_MAX).collect();
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

/// What changed, as it is sent. Events of what is gone are kept no longer: a session may last for
/// months.
fn deltas(
    chain: &mut Chain,
    snapshot: &Snapshot,
    gateway: &Gateway,
    node: NodeId,
) -> Result<Vec<v1::WatchDelta>, String> {
    let specs = &gateway.specs;
    let links = chain.links(snapshot, &mut ToWire { specs }, LINK_BYTES)?;
    let gone = links.iter().flat_map(|link| &link.removed).copied();
    gateway.detail().forget_allocs(node, gone);
    let deltas = links.into_iter().map(|link| v1::WatchDelta {
        previous_index: link.previous_index,
        index: link.index,
        specs: link.specs,
        changed: link.changed,
        removed: link
            .removed
            .iter()
            .map(|id| Bytes::copy_from_slice(id.as_bytes()))
            .collect(),
    });
    Ok(deltas.collect())
}

/// Writes messages of the protocol, and counts their bytes.
struct ToWire<'a> {
    specs: &'a SpecCache,
}

impl Encode for ToWire<'_> {
    type Spec = v1::JobSpec;
    type Alloc = v1::DesiredAlloc;

    fn spec(&mut self, hash: SpecHash, spec: &Arc<Job>) -> Result<(v1::JobSpec, usize), String> {
        let packed = self.specs.packed(hash, spec)?;
        let bytes = packed.len();
        let spec = v1::JobSpec {
            hash: Bytes::copy_from_slice(&hash.0),
            json_zstd: packed,
        };
        Ok((spec, bytes))
    }

    fn alloc(
        &mut self,
        alloc: Allocation,
        root_key: u32,
    ) -> Result<(v1::DesiredAlloc, usize), String> {
        let json = serde_json::to_vec(&alloc).map_err(|error| error.to_string())?;
        let bytes = json.len();
        let alloc = v1::DesiredAlloc {
            alloc_id: Bytes::copy_from_slice(alloc.id.as_bytes()),
            version: alloc.alloc_modify_index,
            spec_hash: Bytes::copy_from_slice(&alloc.spec.0),
            json: json.into(),
            root_key,
        };
        Ok((alloc, bytes))
    }
}
