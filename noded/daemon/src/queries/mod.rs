//! Questions of this node to the server of its session: identities, keys, variables.
//!
//! ```text
//!   session live --open--> Queries <--ask-- identities, keys, templates
//!   session over --close->    |
//!                             `--> NodeQuery stream: StreamHello, QueryRequest -> QueryReply
//! ```
//!
//! A question belongs to the session that it was asked in: it fails when that session ends, and is
//! asked again in the next one by the code that asked it.

mod error;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noded_core::SessionEpoch;
use noded_core::key::Attempt;
use parking_lot::Mutex;
use protocol_error_chain::chain;
use protocol_model::NodeId;
use protocol_transport::StreamKind;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;
use protocol_wire::{QUERIES_MIN, v1};
use tokio::sync::watch;
use tokio::time::Instant;

pub use error::AskError;

use crate::session::{open, parse, write};

/// How long the answer to a question may take that does not wait for a change. The server itself
/// waits up to 5 s for the index of the node's watch.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The session that questions go to.
#[derive(Debug, Clone)]
pub struct LiveSession {
    /// The attempt that made it: it differs from that of every other session.
    pub attempt: Attempt,
    /// The session's epoch.
    pub epoch: SessionEpoch,
    /// The protocol version of both sides.
    pub protocol: u32,
    /// The connection that carries the session.
    pub connection: quinn::Connection,
    /// The server's address, as the node dialed it.
    pub address: String,
}

impl LiveSession {
    /// Whether the server answers questions of nodes and requests of tasks.
    pub fn serves_queries(&self) -> bool {
        self.protocol >= QUERIES_MIN
    }
}

/// The node's questions: one per daemon, shared.
#[derive(Debug)]
pub struct Queries {
    node: NodeId,
    session: watch::Sender<Option<LiveSession>>,
    /// When the newest session ended that has ended; before that, when noded started.
    ended: Mutex<Instant>,
    /// The index of the node's watch: the server answers once it has applied it.
    index: AtomicU64,
}

impl Queries {
    /// Questions of a node that has no session yet.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            session: watch::Sender::new(None),
            ended: Mutex::new(Instant::now()),
            index: AtomicU64::new(0),
        }
    }

    /// The session is live: questions go to it from now on. The session ends with the guard.
    pub(crate) fn begin(self: &Arc<Self>, session: LiveSession) -> SessionGuard {
        let guard = SessionGuard {
            queries: Arc::clone(self),
            attempt: session.attempt,
        };
        self.session.send_replace(Some(session));
        guard
    }

    /// The live session, and each change of it.
    pub fn sessions(&self) -> watch::Receiver<Option<LiveSession>> {
        self.session.subscribe()
    }

    /// When a session ended last; before one has, when noded started, as its predecessor's session
    /// ended then.
    pub(crate) fn session_ended_at(&self) -> Instant {
        *self.ended.lock()
    }

    /// The node's watch is at this index; after a restore of the cluster it may be a lower one.
    pub(crate) fn set_index(&self, index: u64) {
        self.index.store(index, Ordering::Relaxed);
    }

    /// Asks the server of the session, and waits at most `limit` for the answer.
    ///
    /// # Errors
    /// Where there is no session, its server is of an earlier release or refuses, or the answer
    /// does not come in time or makes no sense.
    pub async fn ask(&self, query: Query, limit: Duration) -> Result<Reply, AskError> {
        let session = self.session.borrow().clone();
        let session = session.ok_or(AskError::NoSession)?;
        self.ask_in(&session, query, limit).await
    }

    /// As [`Self::ask`], in this session only.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_in(
        &self,
        session: &LiveSession,
        query: Query,
        limit: Duration,
    ) -> Result<Reply, AskError> {
        if !session.serves_queries() {
            return Err(AskError::OldServer {
                address: session.address.clone(),
                protocol: session.protocol,
            });
        }
        let asked = tokio::time::timeout(limit, self.exchange(session, query)).await;
        match asked {
            Err(_) => Err(AskError::Silent { limit }),
            Ok(Err(problem)) => Err(AskError::Broken { problem }),
            Ok(Ok(Some(Reply::Error(error)))) => Err(AskError::Refused {
                status: error.status,
                message: error.message,
            }),
            Ok(Ok(Some(reply))) => Ok(reply),
            Ok(Ok(None)) => Err(AskError::Unexpected),
        }
    }

    async fn exchange(&self, session: &LiveSession, query: Query) -> Result<Option<Reply>, String> {
        let (mut writer, mut reader) = open(&session.connection, StreamKind::NodeQuery).await?;
        let hello = v1::StreamHello {
            node_id: self.node.as_bytes().to_vec().into(),
            epoch: session.epoch.0,
            ..v1::StreamHello::default()
        };
        write(&mut writer, &hello).await?;
        let request = v1::QueryRequest {
            min_index: self.index.load(Ordering::Relaxed),
            query: Some(query),
        };
        write(&mut writer, &request).await?;
        let frame = reader.expect().await.map_err(|error| chain(&error))?;
        let reply: v1::QueryReply = parse(frame)?;
        Ok(reply.reply)
    }
}

/// A session that questions may go to. Dropping it ends that, unless another session has begun.
#[derive(Debug)]
pub(crate) struct SessionGuard {
    queries: Arc<Queries>,
    attempt: Attempt,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.queries.session.send_if_modified(|session| {
            let is_own = session
                .as_ref()
                .is_some_and(|session| session.attempt == self.attempt);
            if is_own {
                *self.queries.ended.lock() = Instant::now();
                *session = None;
            }
            is_own
        });
    }
}
