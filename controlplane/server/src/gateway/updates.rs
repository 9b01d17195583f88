//! Update streams: a node's batches, through the coalescer, and their acknowledgements.

use controlplane_state::command::NodeBatch;
use controlplane_state::{BatchResult, ItemResult, SessionEpoch, news};
use protocol_model::{AllocId, NodeId};
use protocol_transport::{FrameReader, FrameWriter, URGENT_PRIORITY};
use protocol_wire::kind::FrameMessage as _;
use protocol_wire::v1::{self, UpdateClass};

use super::detail::{self, AllocEvents};
use super::frames::{parse, write};
use super::streams::{self, OwnStream};
use super::{Gateway, NODE_FRAME_BYTES_MAX, reports};

/// Bytes of one batch. Nodes send 256 KiB at most (and one report that is larger alone); a stream
/// that brings more is ended with the reason. Such a batch makes an entry of its own.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Serves one update stream: a batch, its acknowledgement, the next batch.
pub(super) async fn serve(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) {
    if let Err(reason) = run_stream(gateway, send, recv, connection).await {
        tracing::debug!(%reason, "update stream ended");
    }
}

async fn run_stream(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) -> Result<(), String> {
    let mut reader = FrameReader::new(recv, BATCH_BYTES_MAX);
    let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
    let OwnStream {
        node, epoch, hello, ..
    } = streams::own(gateway, &mut reader, connection).await?;
    if hello.class() == UpdateClass::Urgent {
        writer.set_priority(URGENT_PRIORITY);
    }
    while let Some(frame) = reader.read().await.map_err(|error| error.to_string())? {
        let bytes = frame.body.len();
        if frame.kind == v1::DetailReport::KIND {
            let detail = parse(frame.kind, frame.body)?;
            take_in_detail(gateway, node, epoch, detail)?;
            continue;
        }
        let batch: v1::StatusBatch = parse(frame.kind, frame.body)?;
        if batch.epoch != epoch.0 {
            return Err(format!(
                "node {node} speaks of epoch {} in session {epoch}",
                batch.epoch
            ));
        }
        let (class, seq) = (batch.class(), batch.seq);
        let reports = reports::from_wire(batch.allocs).map_err(|error| error.to_string())?;
        let volatile = detail::events(&reports);
        let batch = NodeBatch {
            node,
            epoch,
            class,
            seq,
            reports: news::durable(reports),
        };
        let (index, result) = gateway
            .coalescer
            .submit(batch, bytes)
            .await
            .map_err(|error| error.to_string())?;
        metrics::histogram!("drover_update_batch_reports").record(result.results.len() as f64);
        let again = |item: &ItemResult| *item == ItemResult::Superseded;
        if !result.results.is_empty() && result.results.iter().all(again) {
            metrics::counter!("drover_update_repeated_batches").increment(1);
        }
        if let Some(rejected) = result.rejected {
            return Err(format!(
                "the batch of node {node} was turned away: {rejected:?}"
            ));
        }
        // The state has judged whose allocations these are; of a batch that another server took in
        // before, it says nothing.
        let snapshot = gateway.cluster.snapshot();
        let is_own = |alloc| {
            snapshot
                .alloc(alloc)
                .is_some_and(|alloc| alloc.node_id == node)
        };
        let events = own_events(volatile, &result, is_own);
        gateway.with_detail(node, epoch, |detail| detail.take_in(node, events));
        let ack = v1::BatchAck {
            class: class.into(),
            seq,
            index,
            results: result.results.into_iter().map(Into::into).collect(),
        };
        write(&mut writer, &ack).await?;
    }
    Ok(())
}

/// Events that the session's last server was told.
fn take_in_detail(
    gateway: &Gateway,
    node: NodeId,
    epoch: SessionEpoch,
    detail: v1::DetailReport,
) -> Result<(), String> {
    if detail.epoch != epoch.0 {
        return Err(format!(
            "node {node} tells detail of epoch {} in session {epoch}",
            detail.epoch
        ));
    }
    let reports = reports::from_wire(detail.allocs).map_err(|error| error.to_string())?;
    let snapshot = gateway.cluster.snapshot();
    let is_own = |events: &AllocEvents| {
        let alloc = snapshot.alloc(events.alloc());
        alloc.is_some_and(|alloc| alloc.node_id == node)
    };
    let events = detail::events(&reports).into_iter().filter(is_own);
    gateway.with_detail(node, epoch, |detail| detail.take_in_older(node, events));
    Ok(())
}

/// The events of the node's own allocations: those whose report was taken in, or that `is_own`.
fn own_events(
    events: Vec<AllocEvents>,
    result: &BatchResult,
    is_own: impl Fn(AllocId) -> bool,
) -> Vec<AllocEvents> {
    let judged = events.into_iter().zip(&result.results);
    judged
        .filter(|(events, item)| **item == ItemResult::Applied || is_own(events.alloc()))
        .map(|(events, _)| events)
        .collect()
}
