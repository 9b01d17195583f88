//! The way to the server of the session: a connection of its own beside the session's, made when
//! the first task sends a request. A body that nobody reads fills this connection and delays no
//! heartbeat.

use std::sync::{Arc, Weak};
use std::time::Duration;

use protocol_transport::StreamKind;
use protocol_transport::door::{Wish, WishKind};
use protocol_wire::v1;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

use super::stream::{ApiStream, Receiving, Sending, SessionKey};
use crate::queries::LiveSession;
use crate::session::{Purpose, SessionContext, Target, connect, open};

/// How long a connection and its first stream may take.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// Opens streams to the server of the live session.
#[derive(Debug)]
pub(super) struct Forwarder {
    context: Weak<SessionContext>,
    live: watch::Receiver<Option<LiveSession>>,
    line: Mutex<Option<Line>>,
}

/// The connection for requests of tasks.
#[derive(Clone, Debug)]
struct Line {
    session: SessionKey,
    connection: quinn::Connection,
}

impl Forwarder {
    /// `None` where the node has ended.
    pub(super) fn new(context: Weak<SessionContext>) -> Option<Self> {
        let live = context.upgrade()?.queries.sessions();
        Some(Self {
            context,
            live,
            line: Mutex::new(None),
        })
    }

    /// The session whose server serves requests of tasks, and notice of its changes.
    pub(super) fn sessions(&self) -> Sessions {
        Sessions(self.live.clone())
    }

    /// When a session ended last, or noded started; `None` where the node ends.
    pub(super) fn lost_at(&self) -> Option<Instant> {
        Some(self.context.upgrade()?.queries.session_ended_at())
    }

    /// Opens a stream in a session.
    ///
    /// # Errors
    /// Where its server is out of reach. Nothing was asked then.
    pub(super) async fn open(&self, session: &LiveSession) -> Result<ApiStream, String> {
        let opened = timeout(OPEN_MAX, self.try_open(session)).await;
        opened.map_err(|_| format!("no stream to {} within {OPEN_MAX:?}", session.address))?
    }

    async fn try_open(&self, session: &LiveSession) -> Result<ApiStream, String> {
        let context = self.context.upgrade().ok_or("the node ends")?;
        let Line {
            session: key,
            connection,
        } = self.line(&context, session).await?;
        let (writer, reader) = open(&connection, StreamKind::TaskApi).await?;
        let mut sending = Sending(writer);
        let attach = v1::AttachBulk {
            node_id: context.identity.id.as_bytes().to_vec().into(),
            secret: context.identity.secret.to_vec().into(),
            epoch: key.epoch.0,
        };
        sending.send(&attach).await?;
        Ok(ApiStream {
            session: key,
            sending,
            receiving: Receiving(reader),
            is_between: true,
        })
    }

    async fn line(
        &self,
        context: &Arc<SessionContext>,
        session: &LiveSession,
    ) -> Result<Line, String> {
        let key = key_of(session);
        let mut line = self.line.lock().await;
        if let Some(line) = line.as_ref()
            && line.session == key
            && line.connection.close_reason().is_none()
        {
            return Ok(line.clone());
        }
        let target = Target {
            purpose: Purpose::Tasks,
            wish: Wish::new(WishKind::Calls),
        };
        let dialed = connect(context, &session.address, target).await;
        let connection = dialed.map_err(|broken| broken.reason)?.connection;
        tracing::debug!(address = %session.address, "connection for requests of tasks made");
        let made = Line {
            session: key,
            connection,
        };
        // The connection of an earlier session ends with the last answer on it.
        *line = Some(made.clone());
        Ok(made)
    }
}

/// The session as streams name it.
pub(super) fn key_of(session: &LiveSession) -> SessionKey {
    SessionKey {
        attempt: session.attempt,
        epoch: session.epoch,
    }
}

/// The live session, as it changes.
#[derive(Clone, Debug)]
pub(super) struct Sessions(watch::Receiver<Option<LiveSession>>);

impl Sessions {
    /// The session, whether or not its server serves requests of tasks.
    pub(super) fn newest(&self) -> Option<LiveSession> {
        self.0.borrow().clone()
    }

    /// Waits until another session than this one is live. Cancel-safe.
    pub(super) async fn moved_from(&mut self, session: SessionKey) {
        let moved = self.0.wait_for(|live| {
            live.as_ref()
                .is_some_and(|live| key_of(live) != session && live.serves_queries())
        });
        if moved.await.is_err() {
            // The node ends.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for a change. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
