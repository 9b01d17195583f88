//! Bodies of forwarded requests and their answers, part by part: nothing is gathered.

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use protocol_error_chain::chain;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::{from_frame, to_frame};
use protocol_wire::v1;
use tokio::sync::mpsc;

use super::BODY_PART_BYTES_MAX;
use crate::gateway::frames::write;

/// Parts of a request's body that wait for their reader; the stream's flow control holds back the
/// rest.
const PARTS_MAX: usize = 1;

/// The body of a request, and the future that feeds it from the stream. The future ends with the
/// body's last part, whether or not it was read.
pub(super) fn incoming(
    first: Bytes,
    more: bool,
    reader: &mut FrameReader,
) -> (Body, impl Future<Output = Result<(), String>> + Send) {
    let (parts, received) = mpsc::channel(PARTS_MAX);
    let body = match more {
        false => Body::from(first.clone()),
        true => Body::from_stream(futures::stream::unfold(received, async |mut received| {
            let part: Result<Bytes, std::io::Error> = received.recv().await?;
            Some((part, received))
        })),
    };
    let feed = async move {
        if !more {
            return Ok(());
        }
        // A body that is not read is still received: the next request follows it.
        let _ = parts.send(Ok(first)).await;
        loop {
            let part = match next(reader).await {
                Ok(part) => part,
                Err(reason) => {
                    let broken = std::io::Error::other(reason.clone());
                    let _ = parts.send(Err(broken)).await;
                    return Err(reason);
                }
            };
            let v1::ApiBody { data, last } = part;
            if !data.is_empty() {
                let _ = parts.send(Ok(data)).await;
            }
            if last {
                return Ok(());
            }
        }
    };
    (body, feed)
}

/// The next part of a body.
///
/// # Errors
/// Where the stream ends before it.
pub(super) async fn next(reader: &mut FrameReader) -> Result<v1::ApiBody, String> {
    let frame = reader.expect().await.map_err(|error| chain(&error))?;
    from_frame(frame.kind, frame.body).map_err(|error| chain(&error))
}

/// Sends an answer. A short body that is there already travels with the head: most answers are one
/// packet.
///
/// # Errors
/// Where it breaks off.
pub(super) async fn answer(
    head: &v1::ApiResponse,
    mut body: Body,
    writer: &mut FrameWriter,
) -> Result<(), String> {
    let length = body.size_hint().exact();
    let is_short = length.is_some_and(|length| length <= BODY_PART_BYTES_MAX as u64);
    let first = match is_short {
        true => body.frame().now_or_never(),
        false => None,
    };
    let (data, last) = match first {
        None => (Bytes::new(), length == Some(0)),
        Some(None) => (Bytes::new(), true),
        Some(Some(Ok(frame))) => {
            let data = frame.into_data().unwrap_or_default();
            let last = length == Some(data.len() as u64);
            (data, last)
        }
        Some(Some(Err(error))) => {
            writer.reset(0);
            return Err(format!("the answer broke off: {error}"));
        }
    };
    if data.is_empty() && !last {
        write(writer, head).await?;
    } else {
        let part = to_frame(&v1::ApiBody { data, last });
        let written = writer.write_both(to_frame(head), part).await;
        written.map_err(|error| chain(&error))?;
    }
    match last {
        true => Ok(()),
        false => outgoing(body, writer).await,
    }
}

/// Sends the body of an answer as it comes.
///
/// # Errors
/// Where it breaks off: the stream is reset, because the status was sent already.
pub(super) async fn outgoing(mut body: Body, writer: &mut FrameWriter) -> Result<(), String> {
    let mut left = body.size_hint().exact();
    while left != Some(0) {
        let Some(frame) = body.frame().await else {
            break;
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                writer.reset(0);
                return Err(format!("the answer broke off: {error}"));
            }
        };
        // Trailers mean nothing here.
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        while !data.is_empty() {
            let part = data.split_to(data.len().min(BODY_PART_BYTES_MAX));
            left = left.map(|left| left.saturating_sub(part.len() as u64));
            let last = left == Some(0);
            write(writer, &v1::ApiBody { data: part, last }).await?;
            if last {
                return Ok(());
            }
        }
    }
    let last = v1::ApiBody {
        data: Bytes::new(),
        last: true,
    };
    write(writer, &last).await
}
