//! Messages on a node's streams, one in a frame. What is wrong is told in words: whoever asked ends
//! the stream with them.

use bytes::Bytes;
use protocol_transport::frame::Frame;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use tokio::sync::mpsc;

/// Reads until the stream ends, or nobody takes what it reads: reading is not cancel-safe, and so
/// has a task of its own.
pub(super) async fn read_frames(
    mut reader: FrameReader,
    frames: mpsc::Sender<Result<Frame, String>>,
) {
    loop {
        let frame = match reader.read().await {
            Ok(None) => return,
            Ok(Some(frame)) => Ok(frame),
            Err(error) => Err(error.to_string()),
        };
        let broken = frame.is_err();
        if frames.send(frame).await.is_err() || broken {
            return;
        }
    }
}

/// A frame as what it says it is.
pub(super) fn parse<M: FrameMessage>(kind: u8, body: Bytes) -> Result<M, String> {
    from_frame(kind, body).map_err(|error| error.to_string())
}

pub(super) async fn write<M: FrameMessage>(
    writer: &mut FrameWriter,
    message: &M,
) -> Result<(), String> {
    let (kind, body) = to_frame(message);
    writer
        .write(kind, body)
        .await
        .map_err(|error| error.to_string())
}
