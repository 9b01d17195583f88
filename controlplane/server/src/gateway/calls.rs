//! Calls to nodes: logs, files, exec, restarts. A call may arrive at any server; the node's second
//! connection ends at one of them, and the call is relayed there byte by byte.
//!
//! ```text
//!   HTTP at server A --RelayRequest--> server B (holds the session) --NodeCall--> node
//! ```

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::{Digest, SessionEpoch};
use protocol_model::NodeId;
use protocol_transport::{FrameReader, FrameWriter, StreamKind};
use protocol_wire::kind::{from_frame, to_frame};
use protocol_wire::v1;
use tokio::time::timeout;

use super::{Gateway, NODE_FRAME_BYTES_MAX, SessionEntry, digest};
use crate::cluster::SERVER_FRAME_BYTES_MAX;

/// How long opening a stream to a node, or to the server that holds it, may take.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// What is relayed at once.
const RELAY_BYTES: usize = 64 * 1024;

/// An open call.
#[derive(Debug)]
pub struct NodeCallStream {
    /// Towards the node.
    pub writer: FrameWriter,
    /// From the node.
    pub reader: FrameReader,
}

/// Why a node cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum CallNodeError {
    /// Nobody has a session with it.
    #[error("node {0} is not connected to any server")]
    NotConnected(NodeId),
    /// The connection does not work.
    #[error("node {node} cannot be reached: {reason}")]
    Unreachable {
        /// The node.
        node: NodeId,
        /// Why.
        reason: String,
    },
}

impl Gateway {
    /// Opens a call to a node, wherever its session is, and sends the request.
    ///
    /// # Errors
    /// When no server has a session with it, or the way there is broken.
    pub async fn call_node(
        &self,
        node: NodeId,
        request: &v1::NodeRequest,
    ) -> Result<NodeCallStream, CallNodeError> {
        let (send, recv) = match self.open_here(node).await? {
            Some(stream) => stream,
            None => self.open_elsewhere(node).await?,
        };
        let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
        let reader = FrameReader::new(recv, NODE_FRAME_BYTES_MAX);
        let (kind, body) = to_frame(request);
        writer
            .write(kind, body)
            .await
            .map_err(|error| CallNodeError::Unreachable {
                node,
                reason: error.to_string(),
            })?;
        Ok(NodeCallStream { writer, reader })
    }

    async fn open_here(
        &self,
        node: NodeId,
    ) -> Result<Option<(quinn::SendStream, quinn::RecvStream)>, CallNodeError> {
        let entry = self.lock().get(&node).cloned();
        // A node that went on at another server may have said nothing of it here.
        let is_silent = |entry: &SessionEntry| {
            let heard = self.heard.last(node).unwrap_or(entry.since);
            heard.elapsed() >= self.liveness_config.silence
        };
        let lively = entry.filter(|entry| !is_silent(entry));
        let Some(connection) = lively.and_then(|entry| entry.calls) else {
            return Ok(None);
        };
        let unreachable = |reason: String| CallNodeError::Unreachable { node, reason };
        let (mut send, recv) = timeout(OPEN_MAX, connection.open_bi())
            .await
            .map_err(|_| unreachable(format!("no stream within {OPEN_MAX:?}")))?
            .map_err(|error| unreachable(error.to_string()))?;
        StreamKind::NodeCall
            .write(&mut send)
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        Ok(Some((send, recv)))
    }

    async fn open_elsewhere(
        &self,
        node: NodeId,
    ) -> Result<(quinn::SendStream, quinn::RecvStream), CallNodeError> {
        let own = self.cluster.server_id();
        let membership = self.cluster.status().membership;
        let others = membership.voters.iter().chain(&membership.learners);
        for (_, info) in others.filter(|(id, _)| **id != own) {
            match timeout(OPEN_MAX, self.open_through(&info.address, node)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(reason)) => {
                    tracing::debug!(%node, server = %info.address, %reason, "not relayed");
                }
                Err(_) => self.cluster.pool().report_timeout(&info.address),
            }
        }
        Err(CallNodeError::NotConnected(node))
    }

    async fn open_through(
        &self,
        address: &str,
        node: NodeId,
    ) -> Result<(quinn::SendStream, quinn::RecvStream), String> {
        let (send, recv) = self
            .cluster
            .pool()
            .open(address, StreamKind::Forward)
            .await
            .map_err(|error| error.to_string())?;
        let mut writer = FrameWriter::new(send, SERVER_FRAME_BYTES_MAX);
        let mut reader = FrameReader::new(recv, SERVER_FRAME_BYTES_MAX);
        let request = v1::RelayRequest {
            node_id: node.as_bytes().to_vec().into(),
        };
        let (kind, body) = to_frame(&request);
        writer
            .write(kind, body)
            .await
            .map_err(|error| error.to_string())?;
        let frame = reader.expect().await.map_err(|error| error.to_string())?;
        let _: v1::Relayed = from_frame(frame.kind, frame.body).map_err(|e| e.to_string())?;
        Ok((writer.into_inner(), reader.into_inner()))
    }

    /// Serves another server's relay request: if the node is here, joins the two streams.
    pub(crate) async fn relay(
        &self,
        request: &v1::RelayRequest,
        mut writer: FrameWriter,
        reader: FrameReader,
    ) -> Result<(), String> {
        let node = NodeId::from_slice(&request.node_id).ok_or("the node id is not 16 bytes")?;
        let opened = self
            .open_here(node)
            .await
            .map_err(|error| error.to_string())?;
        let Some((mut to_node, mut from_node)) = opened else {
            return Err(format!("node {node} is not connected here"));
        };
        let (kind, body) = to_frame(&v1::Relayed {});
        writer
            .write(kind, body)
            .await
            .map_err(|error| error.to_string())?;
        let (mut to_server, mut from_server) = (writer.into_inner(), reader.into_inner());
        let forth = async {
            forward(&mut from_server, &mut to_node).await?;
            // The caller has said everything; the node may still have to answer.
            let _ = to_node.finish();
            std::future::pending::<std::io::Result<()>>().await
        };
        let back = async {
            tokio::io::copy(&mut from_node, &mut to_server).await?;
            let _ = to_server.finish();
            std::io::Result::Ok(())
        };
        // The answer's end ends the call; so does a caller that broke off.
        let ended = tokio::select! {
            ended = back => ended,
            ended = forth => ended,
        };
        ended.map_err(|error| error.to_string())
    }
}

/// Carries what a caller says to a node until it has said everything. A node that does not listen
/// any more is about to say why: what comes for it until then is dropped.
async fn forward(from: &mut quinn::RecvStream, to: &mut quinn::SendStream) -> std::io::Result<()> {
    let mut listens = true;
    while let Some(chunk) = from.read_chunk(RELAY_BYTES, true).await? {
        listens = listens && to.write_chunk(chunk.bytes).await.is_ok();
    }
    Ok(())
}

/// Takes a node's second connection: it says which session it belongs to, and proves that it is the
/// node.
pub(super) async fn attach(
    gateway: &Arc<Gateway>,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: quinn::Connection,
) {
    if let Err(reason) = try_attach(gateway, send, recv, connection).await {
        tracing::info!(%reason, "a node's bulk connection was refused");
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
    if !gateway.set_calls(node, SessionEpoch(attach.epoch), connection) {
        return Err(format!("node {node} has no session {} here", attach.epoch));
    }
    let (kind, body) = to_frame(&v1::Attached {});
    writer
        .write(kind, body)
        .await
        .map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())
}
