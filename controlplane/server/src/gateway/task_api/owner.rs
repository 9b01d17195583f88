//! The node whose stream it is. Requests of tasks have a connection of their own beside that of the
//! session, so each of its streams proves the node by its secret (`AttachBulk`). A stream on the
//! session's connection names the session (`StreamHello`), as all streams there do.

use std::time::Duration;

use controlplane_state::{Digest, SessionEpoch};
use protocol_model::NodeId;
use protocol_transport::FrameReader;
use protocol_wire::kind::{FrameMessage as _, from_frame};
use protocol_wire::v1;
use quinn::VarInt;
use tokio::time::timeout;

use crate::gateway::{Gateway, digest, streams};

/// The time in which a stream has to name its node.
const NAMED_MAX: Duration = Duration::from_secs(10);
/// Streams of one node: twice the requests that it forwards at a time, since one that ended may
/// not be closed yet.
const STREAMS_MAX: u32 = 1024;
/// Streams that may be full of bodies which nobody reads without making the others wait.
const FULL_STREAMS_MAX: u32 = 64;

/// A node, in its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) node: NodeId,
    pub(super) epoch: SessionEpoch,
}

impl Owner {
    /// Reads the node that a stream is of.
    ///
    /// # Errors
    /// Where it names none in time, or does not prove it, or the node has no such session here.
    pub(super) async fn read(
        gateway: &Gateway,
        reader: &mut FrameReader,
        connection: &quinn::Connection,
    ) -> Result<Self, String> {
        let first = timeout(NAMED_MAX, reader.expect())
            .await
            .map_err(|_| format!("it did not name its node within {NAMED_MAX:?}"))?
            .map_err(|error| error.to_string())?;
        if first.kind != v1::AttachBulk::KIND {
            let own = streams::own_of(gateway, first, connection)?;
            return Ok(Self {
                node: own.node,
                epoch: own.epoch,
            });
        }
        let attach: v1::AttachBulk =
            from_frame(first.kind, first.body).map_err(|error| error.to_string())?;
        let node = NodeId::from_slice(&attach.node_id).ok_or("the node id is not 16 bytes")?;
        let owner = Self {
            node,
            epoch: SessionEpoch(attach.epoch),
        };
        let secret: Digest = digest(&attach.secret);
        let snapshot = gateway.cluster.snapshot();
        let known = snapshot.node(node);
        if known.is_none_or(|known| known.secret_hash != secret) {
            return Err(format!("node {node} is not known with this secret"));
        }
        owner.check_session(gateway)?;
        connection.set_max_concurrent_bi_streams(VarInt::from_u32(STREAMS_MAX));
        let limits = gateway.cluster.pool().endpoint().limits();
        limits.make_room(connection, FULL_STREAMS_MAX);
        Ok(owner)
    }

    /// Whether its session is still here: one that went elsewhere forwards there.
    ///
    /// # Errors
    /// Where it is not.
    pub(super) fn check_session(self, gateway: &Gateway) -> Result<(), String> {
        let sessions = gateway.sessions.lock();
        let newest = sessions.newest(self.node);
        match newest.is_some_and(|entry| entry.epoch == self.epoch) {
            true => Ok(()),
            false => Err(format!(
                "node {} has no session {} here",
                self.node, self.epoch
            )),
        }
    }
}
