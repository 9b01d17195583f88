//! A stream to the server of the session: requests of one connection, one after the other.

use bytes::Bytes;
use noded_core::SessionEpoch;
use noded_core::key::Attempt;
use protocol_error_chain::chain;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use protocol_wire::v1;

/// The most bytes of a body in one frame.
pub(super) const BODY_PART_BYTES_MAX: usize = 64 * 1024;

/// The session that a stream belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SessionKey {
    pub(super) attempt: Attempt,
    pub(super) epoch: SessionEpoch,
}

/// Both halves of a stream. A stream that is dropped inside an exchange is reset, so the server
/// gives up what it was asked.
#[derive(Debug)]
pub(super) struct ApiStream {
    pub(super) session: SessionKey,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    /// Whether the newest request was sent whole, so that another one may follow it.
    pub(super) is_between: bool,
}

/// The half that requests go out on.
#[derive(Debug)]
pub(super) struct Sending(pub(super) FrameWriter);

/// The half that answers come in on.
#[derive(Debug)]
pub(super) struct Receiving(pub(super) FrameReader);

impl Sending {
    /// Sends a message.
    ///
    /// # Errors
    /// Where the stream broke.
    pub(super) async fn send<M: FrameMessage>(&mut self, message: &M) -> Result<(), String> {
        let (kind, body) = to_frame(message);
        let sent = self.0.write(kind, body).await;
        sent.map_err(|error| chain(&error))
    }

    /// Sends a part of a body, in frames of the size that the server takes.
    ///
    /// # Errors
    /// Where the stream broke.
    pub(super) async fn send_part(&mut self, mut data: Bytes) -> Result<(), String> {
        while !data.is_empty() {
            let part = data.split_to(data.len().min(BODY_PART_BYTES_MAX));
            let last = false;
            self.send(&v1::ApiBody { data: part, last }).await?;
        }
        Ok(())
    }

    /// Ends a body.
    ///
    /// # Errors
    /// Where the stream broke.
    pub(super) async fn end_body(&mut self) -> Result<(), String> {
        let data = Bytes::new();
        self.send(&v1::ApiBody { data, last: true }).await
    }
}

impl Receiving {
    /// The next message.
    ///
    /// # Errors
    /// Where the stream broke, or another message came.
    pub(super) async fn receive<M: FrameMessage>(&mut self) -> Result<M, String> {
        let frame = self.0.expect().await.map_err(|error| chain(&error))?;
        from_frame(frame.kind, frame.body).map_err(|error| chain(&error))
    }
}
