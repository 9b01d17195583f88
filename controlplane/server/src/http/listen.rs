//! The accept loop: TCP, perhaps TLS, HTTP/1.1 and HTTP/2, until the server ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// How long a client may take for its TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// How long a client may take to send a request's head.
const HEAD_MAX: Duration = Duration::from_secs(30);
/// How long requests may go on after the server was told to end.
const GRACE: Duration = Duration::from_secs(2);
/// The pause after a failed accept: most often there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stopped` says so; at most `connections_max` at a time, further ones
/// wait in the kernel's queue.
pub(super) async fn listen(
    router: Router,
    listener: TcpListener,
    https: Option<Arc<rustls::ServerConfig>>,
    connections_max: usize,
    mut stopped: watch::Receiver<bool>,
) {
    let acceptor = https.map(TlsAcceptor::from);
    let places = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (router, acceptor, stopped) = (router.clone(), acceptor.clone(), stopped.clone());
        connections.spawn(async move {
            if let Err(reason) = connection(router, stream, acceptor, stopped).await {
                tracing::debug!(%peer, %reason, "a connection broke");
            }
            drop(place);
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(GRACE, ended).await.is_err() {
        tracing::debug!("requests were cut off: the server ends");
    }
    connections.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

async fn connection(
    router: Router,
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    match acceptor {
        None => requests(router, stream, stopped).await,
        Some(acceptor) => {
            let stream = timeout(HANDSHAKE_MAX, acceptor.accept(stream))
                .await
                .map_err(|_| format!("no TLS handshake within {HANDSHAKE_MAX:?}"))?
                .map_err(|error| error.to_string())?;
            requests(router, stream, stopped).await
        }
    }
}

async fn requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    router: Router,
    stream: S,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX);
    builder.http2().timer(TokioTimer::new());
    let service = TowerToHyperService::new(router);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = serving.as_mut() => return ended.map_err(|error| error.to_string()),
        _ = stopped.wait_for(|stopped| *stopped) => serving.as_mut().graceful_shutdown(),
    }
    serving.await.map_err(|error| error.to_string())
}
