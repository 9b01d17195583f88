//! Calls to nodes: logs, files, exec, restarts. A call may arrive at any server; the node's
//! session is at one of them, and the call is relayed there byte by byte (`relay`).
//!
//! ```text
//!   HTTP at server A --RelayRequest--> server B (holds the session) --NodeCall--> node
//! ```
//!
//! A node has a second connection, for calls, only while calls use it: server B asks for it over
//! the session (`line`), waits for it (`here`), and closes it after five minutes without a call
//! (`idle`). Nodes of protocol 1 attach it as soon as the session is live.
//!
//! What a caller does not read waits on its way, so calls are counted (`places`), and go by
//! connections of their own: nothing that must not wait is behind them.

mod attach;
mod here;
mod idle;
mod line;
mod places;
mod relay;

use std::time::Duration;

use controlplane_raft::ServerInfo;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use protocol_model::{NodeId, NodeStatus};
use protocol_transport::{FrameReader, FrameWriter, StreamKind};
use protocol_wire::kind::{from_frame, to_frame};
use protocol_wire::v1;
use tokio::time::{Instant, sleep, timeout};

pub(super) use self::attach::attach;
use self::here::ATTACH_MAX;
pub(super) use self::line::{CallLine, negotiated};
use self::places::Place;
pub(super) use self::places::Places;
use super::{Gateway, NODE_FRAME_BYTES_MAX};
use crate::cluster::SERVER_FRAME_BYTES_MAX;

/// How long opening a stream to a node, or to the server that holds it, may take.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// How long another server may take to answer for a node: it waits [`ATTACH_MAX`] for the node's
/// connection and 2 s for other calls to end, and the answer takes its time.
const RELAYED_WITHIN: Duration = ATTACH_MAX.saturating_add(Duration::from_secs(3));
/// A ready node that no server reaches is moving from one server to another, or (protocol 1) makes
/// its connection for calls: servers are asked again and again, for as long as that takes.
const ON_ITS_WAY_MAX: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a caller may take nothing of what a node says: a terminal that is held still for
/// minutes. Longer, and what waits is in the way of others.
pub const STALLED_MAX: Duration = Duration::from_secs(300);

/// An open call.
#[derive(Debug)]
pub struct NodeCallStream {
    /// Towards the node.
    pub writer: FrameWriter,
    /// From the node.
    pub reader: FrameReader,
    /// One of few: to be held until the call ends.
    pub place: CallPlace,
}

/// What an open call holds for as long as it lasts.
#[derive(Debug)]
pub struct CallPlace {
    _place: Place,
}

/// A stream to a node, and what it holds.
type Opened = (quinn::SendStream, quinn::RecvStream, Place);

/// Where a node was found.
enum Found {
    /// It is in a session here.
    Here(Opened),
    /// It is at the other end of these, through another server.
    Through(quinn::SendStream, quinn::RecvStream),
    /// Not there.
    Nowhere,
}

/// Why a node cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum CallNodeError {
    /// Nobody has a session with it.
    #[error("node {0} is not connected to any server")]
    NotConnected(NodeId),
    /// It has a session, and did not open a connection for calls when it was asked.
    #[error("node {0} did not open a connection for calls within {ATTACH_MAX:?}")]
    NotAttached(NodeId),
    /// There are too many calls, to this node or to all of them.
    #[error(
        "too many calls are under way; end some (logs that are followed, shells), or try later"
    )]
    TooMany,
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
    /// When no server has a session with it, there are too many calls, or the way there is broken.
    pub async fn call_node(
        &self,
        node: NodeId,
        request: &v1::NodeRequest,
    ) -> Result<NodeCallStream, CallNodeError> {
        let (send, recv, place) = match self.open_attached(node).await? {
            Some(opened) => opened,
            None => self.find(node).await?,
        };
        let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
        let reader = FrameReader::new(recv, NODE_FRAME_BYTES_MAX);
        let (kind, body) = to_frame(request);
        let said = writer.write(kind, body).await;
        said.map_err(|error| CallNodeError::Unreachable {
            node,
            reason: error.to_string(),
        })?;
        Ok(NodeCallStream {
            writer,
            reader,
            place: CallPlace { _place: place },
        })
    }

    /// Asks all servers at once, again and again: a server that is gone, or that waits for a node
    /// that has moved, does not delay the server that has the node.
    async fn find(&self, node: NodeId) -> Result<Opened, CallNodeError> {
        let relayed = self.places.take_relayed().await;
        let relayed = relayed.ok_or(CallNodeError::TooMany)?;
        let until = Instant::now() + self.on_its_way(node);
        let own = self.cluster.server_id();
        let membership = self.cluster.status().membership;
        let members = membership.voters.iter().chain(&membership.learners);
        let mut looked: FuturesUnordered<_> = members
            .filter(|(id, _)| **id != own)
            .map(|(_, info)| self.find_through(info, node, until).boxed())
            .collect();
        looked.push(self.find_here(node, until).boxed());
        let mut failure = CallNodeError::NotConnected(node);
        while let Some(found) = looked.next().await {
            match found {
                Ok(Found::Here(opened)) => return Ok(opened),
                Ok(Found::Through(send, recv)) => return Ok((send, recv, relayed)),
                Ok(Found::Nowhere) => {}
                // Another server may have a newer session of the node.
                Err(not_attached @ CallNodeError::NotAttached(_)) => failure = not_attached,
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    /// How long it is worth to look for a node.
    fn on_its_way(&self, node: NodeId) -> Duration {
        let snapshot = self.cluster.snapshot();
        match snapshot.node(node) {
            Some(record) if record.node.status == NodeStatus::Ready => ON_ITS_WAY_MAX,
            _ => Duration::ZERO,
        }
    }

    async fn find_here(&self, node: NodeId, until: Instant) -> Result<Found, CallNodeError> {
        loop {
            match self.open_here(node).await? {
                Some(opened) => return Ok(Found::Here(opened)),
                None if Instant::now() < until => sleep(LOOK_AGAIN).await,
                None => return Ok(Found::Nowhere),
            }
        }
    }

    async fn find_through(
        &self,
        info: &ServerInfo,
        node: NodeId,
        until: Instant,
    ) -> Result<Found, CallNodeError> {
        loop {
            match self.ask_through(info, node).await? {
                Found::Nowhere if Instant::now() < until => sleep(LOOK_AGAIN).await,
                found => return Ok(found),
            }
        }
    }

    async fn ask_through(&self, info: &ServerInfo, node: NodeId) -> Result<Found, CallNodeError> {
        // One that does not answer is not dropped with all calls through it: it ends by itself.
        match timeout(RELAYED_WITHIN, self.open_through(&info.address, node)).await {
            Ok(Ok(found)) => found,
            Ok(Err(reason)) => {
                tracing::debug!(%node, server = %info.address, %reason, "not relayed");
                Ok(Found::Nowhere)
            }
            Err(_) => Ok(Found::Nowhere),
        }
    }

    /// The outer error: the server gives no answer that makes sense, or does not have the node.
    async fn open_through(
        &self,
        address: &str,
        node: NodeId,
    ) -> Result<Result<Found, CallNodeError>, String> {
        let connection = self.relays.connection(address).await;
        let connection = connection.map_err(|error| error.to_string())?;
        let limits = self.relays.endpoint().limits();
        limits.make_room(&connection, places::RELAYED_MAX);
        let (send, recv) = self
            .relays
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
        let relayed: v1::Relayed = from_frame(frame.kind, frame.body).map_err(|e| e.to_string())?;
        if relayed.too_many_calls {
            return Ok(Err(CallNodeError::TooMany));
        }
        if relayed.not_attached {
            return Ok(Err(CallNodeError::NotAttached(node)));
        }
        let (send, recv) = (writer.into_inner(), reader.into_inner());
        Ok(Ok(Found::Through(send, recv)))
    }
}
