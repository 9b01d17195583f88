//! A node's second connection, on which the server opens a stream for each call: it is taken, and
//! closed when it is idle.

use std::sync::Arc;

use controlplane_state::{Digest, SessionEpoch};
use protocol_model::NodeId;
use protocol_transport::{FrameReader, FrameWriter, LineLimit};
use protocol_wire::kind::{from_frame, to_frame};
use protocol_wire::v1;
use tokio::time::timeout;

use super::OPEN_MAX;
use super::idle::{IDLE_MAX, retired};
use super::places::{CALLS_OF_NODE_MAX, NodeCalls};
use crate::gateway::{Gateway, digest};

/// The code with which an idle connection is closed. It is no error.
const IDLE_CODE: u32 = 0;

static REFUSED: LineLimit = LineLimit::new();

/// Takes a node's second connection: it says which session it belongs to, and proves that it is the
/// node.
pub(in crate::gateway) async fn attach(
    gateway: &Arc<Gateway>,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: quinn::Connection,
) {
    if let Err(reason) = try_attach(gateway, send, recv, connection).await
        && let Some(left_out) = REFUSED.admit()
    {
        tracing::info!(%reason, left_out, "call connection of a node refused");
    }
}

async fn try_attach(
    gateway: &Arc<Gateway>,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: quinn::Connection,
) -> Result<(), String> {
    let mut reader = FrameReader::new(recv, 1024);
    let mut writer = FrameWriter::new(send, 1024);
    let frame = timeout(OPEN_MAX, reader.expect())
        .await
        .map_err(|_| "it said nothing")?
        .map_err(|error| error.to_string())?;
    let attach: v1::AttachBulk =
        from_frame(frame.kind, frame.body).map_err(|error| error.to_string())?;
    let node = NodeId::from_slice(&attach.node_id).ok_or("the node id is not 16 bytes")?;
    let secret: Digest = digest(&attach.secret);
    let snapshot = gateway.cluster.snapshot();
    let known = snapshot
        .node(node)
        .ok_or_else(|| format!("node {node} is not registered"))?;
    if known.secret_hash != secret {
        return Err(format!("node {node}: the secret is another"));
    }
    // Calls whose callers rest keep what the node said until they go on: no other call may wait.
    let limits = gateway.cluster.pool().endpoint().limits();
    limits.make_room(&connection, CALLS_OF_NODE_MAX);
    let line = gateway.line_of(node, SessionEpoch(attach.epoch));
    let line = line.ok_or_else(|| format!("node {node} has no session {} here", attach.epoch))?;
    let calls = NodeCalls::new(connection);
    line.attach(calls.clone());
    let (kind, body) = to_frame(&v1::Attached {});
    writer
        .write(kind, body)
        .await
        .map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())?;
    // A node of protocol 1 would attach again at once.
    if line.is_on_demand() {
        drop((reader, line));
        close_when_idle(node, &calls).await;
    }
    Ok(())
}

async fn close_when_idle(node: NodeId, calls: &NodeCalls) {
    tokio::select! {
        _ = calls.connection.closed() => {}
        () = retired(calls) => {
            calls.connection.close(IDLE_CODE.into(), b"no calls");
            tracing::debug!(%node, idle_for = ?IDLE_MAX, "connection for calls closed: idle");
        }
    }
}
