//! A connection after 101: bytes both ways, until one side ends.

use std::sync::Arc;

use bytes::Bytes;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use protocol_wire::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};

use super::listen::Connection;
use super::request::UnderWay;
use super::stream::{ApiStream, Receiving, Sending};

/// Bytes that are read from the client at a time.
const READ_BYTES: usize = 16 * 1024;

/// Carries the bytes once hyper has written the 101. The places stay occupied until both ways end.
pub(super) fn begin(
    upgrade: Option<OnUpgrade>,
    stream: ApiStream,
    places: (Arc<Connection>, UnderWay),
) {
    tokio::spawn(async move {
        let _places = places;
        let Some(upgrade) = upgrade else { return };
        let ended = match upgrade.await {
            Ok(upgraded) => both_ways(upgraded, stream).await,
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = ended {
            tracing::debug!(%reason, "an upgraded connection of a task ended");
        }
    });
}

async fn both_ways(upgraded: Upgraded, stream: ApiStream) -> Result<(), String> {
    let ApiStream {
        sending, receiving, ..
    } = stream;
    let (from_task, to_task) = tokio::io::split(TokioIo::new(upgraded));
    let sent = send(from_task, sending);
    let received = receive(receiving, to_task);
    let (mut sent, mut received) = (std::pin::pin!(sent), std::pin::pin!(received));
    tokio::select! {
        // The server has its last words: an exit code comes after the end of the input.
        sent = &mut sent => sent.and(received.await),
        // After the server's end nobody reads what the task sends.
        received = &mut received => received,
    }
}

async fn send(
    mut from_task: ReadHalf<TokioIo<Upgraded>>,
    mut sending: Sending,
) -> Result<(), String> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = from_task.read(&mut buffer).await;
        match read.map_err(|error| error.to_string())? {
            0 => return sending.end_body().await,
            count => {
                let part = Bytes::copy_from_slice(&buffer[..count]);
                sending.send_part(part).await?;
            }
        }
    }
}

async fn receive(
    mut receiving: Receiving,
    mut to_task: WriteHalf<TokioIo<Upgraded>>,
) -> Result<(), String> {
    loop {
        let v1::ApiBody { data, last } = receiving.receive().await?;
        let written = async {
            to_task.write_all(&data).await?;
            to_task.flush().await
        };
        written.await.map_err(|error| error.to_string())?;
        if last {
            return to_task.shutdown().await.map_err(|error| error.to_string());
        }
    }
}
