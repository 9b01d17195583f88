//! A call to a node whose session is here.
//!
//! ```text
//!   session here? --no--> nowhere
//!     | yes
//!   attached? --yes--> a stream on the node's connection
//!     | no, protocol 2: CallsWanted, every 500 ms for 5 s
//!     +--attached--> a stream          +--not attached--> error
//! ```

use std::sync::Arc;
use std::time::Duration;

use protocol_model::NodeId;
use protocol_transport::StreamKind;
use tokio::time::{Instant, timeout, timeout_at};

use super::line::CallLine;
use super::places::{NoPlace, NodeCalls};
use super::{CallNodeError, OPEN_MAX, Opened};
use crate::gateway::Gateway;
use crate::gateway::held::SessionEntry;

/// How long a call waits for the node to attach its connection.
pub(super) const ATTACH_MAX: Duration = OPEN_MAX;
/// Between two requests of one call: a node that attaches gives up 10 s after the newest, and the
/// session may continue over another connection meanwhile.
const ASK_AGAIN: Duration = Duration::from_millis(500);

impl Gateway {
    /// Opens a stream to a node whose session is here, once its connection for calls is attached.
    /// `None` where the session is not here, or the node attaches without being asked.
    pub(super) async fn open_here(&self, node: NodeId) -> Result<Option<Opened>, CallNodeError> {
        let until = Instant::now() + ATTACH_MAX;
        loop {
            if let Some(opened) = self.open_attached(node).await? {
                return Ok(Some(opened));
            }
            // The newest session each time: it may have ended, or continue on another connection.
            let line = self.call_line(node);
            let Some(line) = line.filter(|line| line.is_on_demand()) else {
                return Ok(None);
            };
            let now = Instant::now();
            if now >= until {
                return Err(CallNodeError::NotAttached(node));
            }
            line.ask();
            let _ = timeout_at(until.min(now + ASK_AGAIN), line.attachment()).await;
        }
    }

    /// The same without waiting for a connection: `None` where none is attached.
    pub(super) async fn open_attached(
        &self,
        node: NodeId,
    ) -> Result<Option<Opened>, CallNodeError> {
        let calls = self.call_line(node).and_then(|line| line.attached());
        match calls {
            Some(calls) => self.open_on(node, &calls).await,
            None => Ok(None),
        }
    }

    /// `None` where the connection ends meanwhile.
    async fn open_on(
        &self,
        node: NodeId,
        calls: &NodeCalls,
    ) -> Result<Option<Opened>, CallNodeError> {
        let place = match self.places.take_here(calls).await {
            Ok(place) => place,
            Err(NoPlace::Closed) => return Ok(None),
            Err(NoPlace::TooMany) => return Err(CallNodeError::TooMany),
        };
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

    /// The line of the node's newest session here, unless the node is silent: it may have moved to
    /// another server.
    fn call_line(&self, node: NodeId) -> Option<Arc<CallLine>> {
        let entry = self.sessions.lock().newest(node).cloned();
        let is_silent = |entry: &SessionEntry| {
            let heard = self.heard.last(node).unwrap_or(entry.since);
            heard.elapsed() >= self.silence()
        };
        let lively = entry.filter(|entry| !is_silent(entry));
        lively.map(|entry| entry.calls)
    }
}
