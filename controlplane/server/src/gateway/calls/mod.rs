//! Calls to nodes: logs, files, exec, restarts. A call may arrive at any server; the node's second
//! connection ends at one of them (`attach`), and the call is relayed there byte by byte (`relay`).
//!
//! ```text
//!   HTTP at server A --RelayRequest--> server B (holds the session) --NodeCall--> node
//! ```
//!
//! What a caller does not read waits on its way, so calls are counted (`places`), and go by
//! connections of their own: nothing that must not wait is behind them.

mod attach;
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
use self::places::Place;
pub(super) use self::places::{NodeCalls, Places};
use super::held::SessionEntry;
use super::{Gateway, NODE_FRAME_BYTES_MAX};
use crate::cluster::SERVER_FRAME_BYTES_MAX;

/// How long opening a stream to a node, or to the server that holds it, may take.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// A node that is ready and that nobody reaches is on its way from one server to another, or makes
/// its second connection: it is looked for again and again, for as long as that takes.
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
        let (send, recv, place) = match self.open_here(node).await? {
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

    /// Looks everywhere at once, again and again: a server that is gone keeps nobody waiting who is
    /// at another one by now.
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
        while let Some(found) = looked.next().await {
            match found? {
                Found::Here(opened) => return Ok(opened),
                Found::Through(send, recv) => return Ok((send, recv, relayed)),
                Found::Nowhere => {}
            }
        }
        Err(CallNodeError::NotConnected(node))
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
        while Instant::now() < until {
            sleep(LOOK_AGAIN).await;
            if let Some(opened) = self.open_here(node).await? {
                return Ok(Found::Here(opened));
            }
        }
        Ok(Found::Nowhere)
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

    async fn open_here(&self, node: NodeId) -> Result<Option<Opened>, CallNodeError> {
        let entry = self.sessions.lock().newest(node).cloned();
        // A node that went on at another server may have said nothing of it here.
        let is_silent = |entry: &SessionEntry| {
            let heard = self.heard.last(node).unwrap_or(entry.since);
            heard.elapsed() >= self.liveness_config.silence
        };
        let lively = entry.filter(|entry| !is_silent(entry));
        // One that broke is made again in a moment.
        let stands = |calls: &NodeCalls| calls.connection.close_reason().is_none();
        let calls = lively.and_then(|entry| entry.calls).filter(stands);
        let Some(calls) = calls else {
            return Ok(None);
        };
        let place = self.places.take_here(&calls).await;
        let place = place.ok_or(CallNodeError::TooMany)?;
        let unreachable = |reason: String| CallNodeError::Unreachable { node, reason };
        let opened = match timeout(OPEN_MAX, calls.connection.open_bi()).await {
            Ok(Err(_)) => return Ok(None),
            Ok(Ok(opened)) => opened,
            Err(_) => return Err(unreachable(format!("no stream within {OPEN_MAX:?}"))),
        };
        let (mut send, recv) = opened;
        StreamKind::NodeCall
            .write(&mut send)
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        Ok(Some((send, recv, place)))
    }

    async fn ask_through(&self, info: &ServerInfo, node: NodeId) -> Result<Found, CallNodeError> {
        // One that does not answer is not dropped with all calls through it: it ends by itself.
        match timeout(OPEN_MAX, self.open_through(&info.address, node)).await {
            Ok(Ok(found)) => found.ok_or(CallNodeError::TooMany),
            Ok(Err(reason)) => {
                tracing::debug!(%node, server = %info.address, %reason, "not relayed");
                Ok(Found::Nowhere)
            }
            Err(_) => Ok(Found::Nowhere),
        }
    }

    /// `None`: it is there, and called too often at a time.
    async fn open_through(&self, address: &str, node: NodeId) -> Result<Option<Found>, String> {
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
            return Ok(None);
        }
        let (send, recv) = (writer.into_inner(), reader.into_inner());
        Ok(Some(Found::Through(send, recv)))
    }
}
