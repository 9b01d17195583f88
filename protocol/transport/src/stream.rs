//! Frames on QUIC streams: the thin shell around [`crate::frame`].

use bytes::{Bytes, BytesMut};
use quinn::{ReadExactError, RecvStream, SendStream};

use crate::fault::Fault;
use crate::frame::{Frame, FrameError, HEADER_BYTES, Header};

/// How much a body's buffer grows at a time: memory follows what was received, not what a
/// peer's header promised.
const BODY_STEP_BYTES: usize = 64 * 1024;

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the peer sent a malformed frame")]
    Malformed(#[source] FrameError),
    #[error("the stream ended inside a frame")]
    Truncated,
    #[error("the stream ended where a frame was expected")]
    Ended,
    #[error("the stream broke")]
    Stream(#[source] quinn::ReadError),
}

impl ReadError {
    pub fn fault(&self) -> Fault {
        match self {
            Self::Malformed(_) | Self::Truncated | Self::Ended => Fault::Peer,
            Self::Stream(_) => Fault::Environment,
        }
    }
}

/// Why a frame could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the frame is too large to send")]
    TooLarge(#[source] FrameError),
    #[error("the stream broke")]
    Stream(#[source] quinn::WriteError),
    #[error("the stream was closed already")]
    Closed,
}

impl WriteError {
    pub fn fault(&self) -> Fault {
        match self {
            Self::TooLarge(_) | Self::Closed => Fault::Us,
            Self::Stream(_) => Fault::Environment,
        }
    }
}

/// Reads frames from a stream, none above its cap.
///
/// Not cancel-safe: a read dropped half-way leaves the stream inside a frame. Give the reader
/// to one task, or drop it with the read.
#[derive(Debug)]
pub struct FrameReader {
    stream: RecvStream,
    body_bytes_max: usize,
}

impl FrameReader {
    pub fn new(stream: RecvStream, body_bytes_max: usize) -> Self {
        Self {
            stream,
            body_bytes_max,
        }
    }

    /// The next frame, or `None` when the peer finished the stream between frames.
    ///
    /// # Errors
    /// When the frame is malformed, too large or cut off, or the stream broke.
    pub async fn read(&mut self) -> Result<Option<Frame>, ReadError> {
        let mut header = [0; HEADER_BYTES];
        match self.stream.read_exact(&mut header).await {
            Ok(()) => {}
            Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
            Err(ReadExactError::FinishedEarly(_)) => return Err(ReadError::Truncated),
            Err(ReadExactError::ReadError(error)) => return Err(ReadError::Stream(error)),
        }
        let header = Header::decode(header, self.body_bytes_max).map_err(ReadError::Malformed)?;
        let body = self.read_body(header.body_bytes).await?;
        Ok(Some(Frame {
            kind: header.kind,
            body,
        }))
    }

    /// The next frame, where the end of the stream is an error too.
    ///
    /// # Errors
    /// As [`Self::read`], and [`ReadError::Ended`].
    pub async fn expect(&mut self) -> Result<Frame, ReadError> {
        self.read().await?.ok_or(ReadError::Ended)
    }

    /// Tells the peer to stop sending.
    pub fn stop(&mut self, code: u32) {
        // An error means that the stream has ended already.
        let _ = self.stream.stop(code.into());
    }

    pub fn into_inner(self) -> RecvStream {
        self.stream
    }

    async fn read_body(&mut self, body_bytes: usize) -> Result<Bytes, ReadError> {
        let mut body = BytesMut::with_capacity(body_bytes.min(BODY_STEP_BYTES));
        while body.len() < body_bytes {
            let missing = body_bytes - body.len();
            let chunk = self
                .stream
                .read_chunk(missing, true)
                .await
                .map_err(ReadError::Stream)?;
            let Some(chunk) = chunk else {
                return Err(ReadError::Truncated);
            };
            if body.is_empty() && chunk.bytes.len() == body_bytes {
                return Ok(chunk.bytes);
            }
            body.extend_from_slice(&chunk.bytes);
        }
        Ok(body.freeze())
    }
}

/// Writes frames to a stream, none above its cap.
#[derive(Debug)]
pub struct FrameWriter {
    stream: SendStream,
    body_bytes_max: usize,
}

impl FrameWriter {
    pub fn new(stream: SendStream, body_bytes_max: usize) -> Self {
        Self {
            stream,
            body_bytes_max,
        }
    }

    /// Hands one frame to the transport; returning says nothing about its arrival.
    ///
    /// # Errors
    /// When the body is above the cap (nothing is sent then) or the stream broke.
    pub async fn write(&mut self, kind: u8, body: Bytes) -> Result<(), WriteError> {
        let mut chunks = self.chunks(kind, body)?;
        self.stream
            .write_all_chunks(&mut chunks)
            .await
            .map_err(WriteError::Stream)
    }

    /// Hands two frames to the transport at once: they share a packet where they fit in one.
    ///
    /// # Errors
    /// When a body is above the cap (nothing is sent then) or the stream broke.
    pub async fn write_both(
        &mut self,
        first: (u8, Bytes),
        second: (u8, Bytes),
    ) -> Result<(), WriteError> {
        let [header, body] = self.chunks(first.0, first.1)?;
        let [next_header, next_body] = self.chunks(second.0, second.1)?;
        let mut chunks = [header, body, next_header, next_body];
        self.stream
            .write_all_chunks(&mut chunks)
            .await
            .map_err(WriteError::Stream)
    }

    fn chunks(&self, kind: u8, body: Bytes) -> Result<[Bytes; 2], WriteError> {
        let header = Header {
            kind,
            body_bytes: body.len(),
        }
        .encode(self.body_bytes_max)
        .map_err(WriteError::TooLarge)?;
        Ok([Bytes::copy_from_slice(&header), body])
    }

    /// Ends the stream after what was written.
    ///
    /// # Errors
    /// When the stream was finished or reset before.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        self.stream.finish().map_err(|_| WriteError::Closed)
    }

    /// Sets the stream's send priority; higher goes first.
    pub fn set_priority(&self, priority: i32) {
        // An error means that the stream has ended already.
        let _ = self.stream.set_priority(priority);
    }

    /// Ends when the peer reads no more of the stream, or the connection is gone: nobody waits for
    /// an answer any more. A stream that is finished ends it, too, once all of it has arrived.
    pub fn abandoned(&self) -> impl Future<Output = ()> + Send + use<> {
        let stopped = self.stream.stopped();
        async move {
            let _ = stopped.await;
        }
    }

    /// Throws away what was not sent yet and tells the peer so.
    pub fn reset(&mut self, code: u32) {
        // An error means that the stream has ended already.
        let _ = self.stream.reset(code.into());
    }

    pub fn into_inner(self) -> SendStream {
        self.stream
    }
}
