//! A request that asks for another protocol: a WebSocket. The HTTP API serves it on a connection in
//! memory, whose bytes go both ways once it has agreed.

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use bytes::Bytes;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};

use super::{BODY_PART_BYTES_MAX, Stream, ViaNode, api_headers, body};
use crate::gateway::frames::write;

/// Bytes that wait in the connection, each way.
const CONNECTION_BYTES: usize = 64 * 1024;

/// Serves the request and what follows it.
pub(super) async fn serve(
    stream: Stream,
    reader: FrameReader,
    request: Request<()>,
    via: ViaNode,
) -> Result<(), String> {
    let mut stream = stream;
    if let Err(refused) = stream.api.authenticate(request.headers(), &via).await {
        return stream.send(refused).await;
    }
    let Stream {
        api, mut writer, ..
    } = stream;
    let (near, far) = tokio::io::duplex(CONNECTION_BYTES);
    let serving = api.serve_upgrade(far, via);
    let asking = async {
        let response = ask(near, request).await?;
        let (head, answer) = response.into_parts();
        let status = head.status;
        let head = v1::ApiResponse {
            status: status.as_u16().into(),
            headers: api_headers(&head.headers),
            rejected: false,
        };
        write(&mut writer, &head).await?;
        match answer {
            Agreed::No(body) => body::outgoing(body, &mut writer).await,
            Agreed::Yes(upgraded) => both_ways(upgraded, reader, writer).await,
        }
    };
    tokio::select! {
        asked = asking => asked,
        () = async { serving.await; std::future::pending().await } => Ok(()),
    }
}

/// The body of the answer.
enum Agreed {
    No(Body),
    Yes(Upgraded),
}

async fn ask(
    near: tokio::io::DuplexStream,
    request: Request<()>,
) -> Result<Response<Agreed>, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(near))
        .await
        .map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection.with_upgrades());
    let request = request.map(|()| Body::empty());
    let response = sender.send_request(request).await;
    let mut response = response.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response.map(|body| Agreed::No(Body::new(body))));
    }
    let upgraded = hyper::upgrade::on(&mut response)
        .await
        .map_err(|error| error.to_string())?;
    drop(connection);
    Ok(response.map(|_| Agreed::Yes(upgraded)))
}

async fn both_ways(
    upgraded: Upgraded,
    reader: FrameReader,
    writer: FrameWriter,
) -> Result<(), String> {
    let (from_api, to_api) = tokio::io::split(TokioIo::new(upgraded));
    // Either side may end first; the other one then has its last words.
    let (sent, received) = tokio::join!(send(from_api, writer), receive(reader, to_api));
    sent.and(received)
}

async fn send(
    mut from_api: ReadHalf<TokioIo<Upgraded>>,
    mut writer: FrameWriter,
) -> Result<(), String> {
    let mut buffer = vec![0; BODY_PART_BYTES_MAX];
    loop {
        let read = from_api.read(&mut buffer).await;
        let count = read.map_err(|error| error.to_string())?;
        let part = v1::ApiBody {
            data: Bytes::copy_from_slice(&buffer[..count]),
            last: count == 0,
        };
        write(&mut writer, &part).await?;
        if count == 0 {
            return writer.finish().map_err(|error| error.to_string());
        }
    }
}

async fn receive(
    mut reader: FrameReader,
    mut to_api: WriteHalf<TokioIo<Upgraded>>,
) -> Result<(), String> {
    loop {
        let v1::ApiBody { data, last } = body::next(&mut reader).await?;
        let written = to_api.write_all(&data).await;
        written.map_err(|error| error.to_string())?;
        if last {
            return to_api.shutdown().await.map_err(|error| error.to_string());
        }
    }
}
