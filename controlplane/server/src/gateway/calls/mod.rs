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
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use protocol_model::{NodeId, NodeStatus};
use protocol_transport::{FrameReader, FrameWriter, StreamKind};
use protocol_wire::kind::{from_frame, to_frame};
use protocol_wire::v1;
use tokio::time::{Instant, sleep, timeout};

pub(super) use self::attach::attach;
use self::places::Place;
pub(super) use self::places::{NodeCalls, Places};
use super::{Gateway, NODE_FRAME_BYTES_MAX, SessionEntry};
use crate::cluster::SERVER_FRAME_BYTES_MAX;

/// How long opening a stream to a node, or to the server that holds it, may take.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// A node that is ready and that nobody reaches is on its way from one server to another, or makes
/// its second connection: it is looked for again and again, for as long as that takes.
const ON_ITS_WAY_MAX: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

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

/// What another server says of a node.
enum Asked {
    /// It is there, at the other end of these.
    Opened(quinn::SendStream, quinn::RecvStream),
    /// It is there, and called too often at a time.
    TooMany,
    /// It is not there, or the server does not answer.
    NotThere,
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
        let until = Instant::now() + ON_ITS_WAY_MAX;
        let (send, recv, place) = loop {
            match self.open(node).await {
                Err(CallNodeError::NotConnected(_))
                    if Instant::now() < until && self.is_ready(node) =>
                {
                    sleep(LOOK_AGAIN).await;
                }
                opened => break opened?,
            }
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

    fn is_ready(&self, node: NodeId) -> bool {
        let snapshot = self.cluster.snapshot();
        let record = snapshot.node(node);
        record.is_some_and(|record| record.node.status == NodeStatus::Ready)
    }

    async fn open(&self, node: NodeId) -> Result<Opened, CallNodeError> {
        match self.open_here(node).await? {
            Some(opened) => Ok(opened),
            None => self.open_elsewhere(node).await,
        }
    }

    async fn open_here(&self, node: NodeId) -> Result<Option<Opened>, CallNodeError> {
        let entry = self.lock().get(&node).cloned();
        // A node that went on at another server may have said nothing of it here.
        let is_silent = |entry: &SessionEntry| {
            let heard = self.heard.last(node).unwrap_or(entry.since);
            heard.elapsed() >= self.liveness_config.silence
        };
        let lively = entry.filter(|entry| !is_silent(entry));
        let Some(calls) = lively.and_then(|entry| entry.calls) else {
            return Ok(None);
        };
        let place = self.places.take_here(&calls).await;
        let place = place.ok_or(CallNodeError::TooMany)?;
        let unreachable = |reason: String| CallNodeError::Unreachable { node, reason };
        let (mut send, recv) = timeout(OPEN_MAX, calls.connection.open_bi())
            .await
            .map_err(|_| unreachable(format!("no stream within {OPEN_MAX:?}")))?
            .map_err(|error| unreachable(error.to_string()))?;
        StreamKind::NodeCall
            .write(&mut send)
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        Ok(Some((send, recv, place)))
    }

    /// Asks all other servers at once: one that is gone keeps nobody waiting who is elsewhere.
    async fn open_elsewhere(&self, node: NodeId) -> Result<Opened, CallNodeError> {
        let place = self.places.take_relayed().await;
        let place = place.ok_or(CallNodeError::TooMany)?;
        let own = self.cluster.server_id();
        let membership = self.cluster.status().membership;
        let members = membership.voters.iter().chain(&membership.learners);
        let mut asked: FuturesUnordered<_> = members
            .filter(|(id, _)| **id != own)
            .map(|(_, info)| self.ask_through(info, node))
            .collect();
        while let Some(answer) = asked.next().await {
            match answer {
                Asked::Opened(send, recv) => return Ok((send, recv, place)),
                Asked::TooMany => return Err(CallNodeError::TooMany),
                Asked::NotThere => {}
            }
        }
        Err(CallNodeError::NotConnected(node))
    }

    async fn ask_through(&self, info: &ServerInfo, node: NodeId) -> Asked {
        match timeout(OPEN_MAX, self.open_through(&info.address, node)).await {
            Ok(Ok(answer)) => {
                self.relays.report_success(&info.address);
                answer
            }
            Ok(Err(reason)) => {
                tracing::debug!(%node, server = %info.address, %reason, "not relayed");
                Asked::NotThere
            }
            Err(_) => {
                self.relays.report_timeout(&info.address);
                Asked::NotThere
            }
        }
    }

    async fn open_through(&self, address: &str, node: NodeId) -> Result<Asked, String> {
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
            return Ok(Asked::TooMany);
        }
        Ok(Asked::Opened(writer.into_inner(), reader.into_inner()))
    }
}
