//! How calls are answered, and how they go wrong.

use std::time::{Duration, Instant};

use protocol_error_chain::chain;
use protocol_transport::FrameWriter;
use protocol_wire::kind::to_frame;
use protocol_wire::v1;
use tokio::time::timeout;

/// How long whoever listens may take nothing: a terminal that is held still for minutes.
const STALLED_MAX: Duration = Duration::from_secs(300);

/// Why a call failed, with the HTTP status that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallFailed {
    pub(super) status: u32,
    pub(super) message: String,
}

impl CallFailed {
    pub(super) fn new(status: u32, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, message)
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    pub(super) fn internal(error: &dyn std::error::Error) -> Self {
        Self::new(500, chain(error))
    }
}

/// How a call goes wrong: with an answer, or because nobody listens any more.
#[derive(Debug)]
pub(crate) enum CallEnd {
    Failed(CallFailed),
    Gone,
    /// Whoever listens has taken nothing for too long.
    Stalled,
}

impl From<CallFailed> for CallEnd {
    fn from(failed: CallFailed) -> Self {
        Self::Failed(failed)
    }
}

/// The way back to whoever called.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(super) writer: FrameWriter,
    /// When the last reply was sent; `None` before the first one.
    sent_at: Option<Instant>,
}

impl Replies {
    pub(super) fn new(writer: FrameWriter) -> Self {
        Self {
            writer,
            sent_at: None,
        }
    }

    /// Whether no reply was sent for this long, or none at all.
    pub(super) fn quiet_for(&self, at_least: Duration) -> bool {
        self.sent_at.is_none_or(|at| at.elapsed() >= at_least)
    }

    pub(super) async fn send(&mut self, reply: v1::node_reply::Reply) -> Result<(), CallEnd> {
        let (kind, body) = to_frame(&v1::NodeReply { reply: Some(reply) });
        match timeout(STALLED_MAX, self.writer.write(kind, body)).await {
            Ok(written) => written.map_err(|_| CallEnd::Gone)?,
            Err(_) => return Err(CallEnd::Stalled),
        }
        self.sent_at = Some(Instant::now());
        Ok(())
    }

    pub(super) async fn json<T: serde::Serialize>(&mut self, value: &T) -> Result<(), CallEnd> {
        let json = serde_json::to_vec(value).map_err(|error| CallFailed::internal(&error))?;
        self.send(v1::node_reply::Reply::Json(json.into())).await
    }

    pub(super) async fn heartbeat(&mut self) -> Result<(), CallEnd> {
        self.send(v1::node_reply::Reply::Heartbeat(true)).await
    }
}
