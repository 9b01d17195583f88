//! The server between a caller's server and a node: two streams, joined.

use std::io;

use protocol_model::NodeId;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::to_frame;
use protocol_wire::v1;
use tokio::time::timeout;

use super::places::RELAYED_MAX;
use super::{CallNodeError, STALLED_MAX};
use crate::gateway::Gateway;

/// What is carried at once.
const RELAY_BYTES: usize = 64 * 1024;

impl Gateway {
    /// Serves another server's relay request, which came on `connection`: if the node is here,
    /// joins the two streams.
    pub(crate) async fn relay(
        &self,
        request: &v1::RelayRequest,
        mut writer: FrameWriter,
        reader: FrameReader,
        connection: &quinn::Connection,
    ) -> Result<(), String> {
        let node = NodeId::from_slice(&request.node_id).ok_or("the node id is not 16 bytes")?;
        let opened = match self.open_here(node).await {
            Err(refused @ (CallNodeError::TooMany | CallNodeError::NotAttached(_))) => {
                let refused = v1::Relayed {
                    too_many_calls: matches!(refused, CallNodeError::TooMany),
                    not_attached: matches!(refused, CallNodeError::NotAttached(_)),
                };
                let (kind, body) = to_frame(&refused);
                let said = writer.write(kind, body).await;
                return said.map_err(|error| error.to_string());
            }
            opened => opened.map_err(|error| error.to_string())?,
        };
        let Some((mut to_node, mut from_node, _place)) = opened else {
            return Err(format!("node {node} is not connected here"));
        };
        // Calls of which the node takes nothing for a while are in nobody's way.
        let limits = self.cluster.pool().endpoint().limits();
        limits.make_room(connection, RELAYED_MAX);
        let (kind, body) = to_frame(&v1::Relayed::default());
        let said = writer.write(kind, body).await;
        said.map_err(|error| error.to_string())?;
        let (mut to_server, mut from_server) = (writer.into_inner(), reader.into_inner());
        let forth = async {
            forward(&mut from_server, &mut to_node).await?;
            // The caller has said everything; the node may still have to answer.
            let _ = to_node.finish();
            std::future::pending::<io::Result<()>>().await
        };
        let left = to_server.stopped();
        let back = back(&mut from_node, &mut to_server);
        // The answer's end ends the call; so does a caller that broke off, or does not listen.
        let ended = tokio::select! {
            ended = back => ended,
            ended = forth => ended,
            _ = left => Err(io::Error::other("the caller left")),
        };
        if ended.is_err() {
            // What nobody has read is worth nothing without its end.
            let _ = to_server.reset(0_u32.into());
            let _ = to_node.reset(0_u32.into());
        }
        ended.map_err(|error| error.to_string())
    }
}

/// Carries what a caller says to a node until it has said everything. A node that does not listen
/// any more is about to say why: what comes for it until then is dropped.
async fn forward(from: &mut quinn::RecvStream, to: &mut quinn::SendStream) -> io::Result<()> {
    let mut listens = true;
    while let Some(chunk) = from.read_chunk(RELAY_BYTES, true).await? {
        // A process may take its time to read what it is told: a call is long as long as it is.
        listens = listens && to.write_chunk(chunk.bytes).await.is_ok();
    }
    Ok(())
}

/// Carries what a node answers to the caller.
async fn back(from: &mut quinn::RecvStream, to: &mut quinn::SendStream) -> io::Result<()> {
    while let Some(chunk) = from.read_chunk(RELAY_BYTES, true).await? {
        let stalled = |_| {
            io::Error::new(
                io::ErrorKind::TimedOut,
                "the caller does not read the answer",
            )
        };
        let written = timeout(STALLED_MAX, to.write_chunk(chunk.bytes)).await;
        written.map_err(stalled)??;
    }
    let _ = to.finish();
    Ok(())
}
