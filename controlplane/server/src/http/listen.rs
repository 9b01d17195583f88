//! The accept loop: TCP, perhaps TLS, HTTP/1.1 and HTTP/2, until the server ends.
//!
//! ```text
//!   accepted --no place for its address--> 429 or closed
//!      | opening limit: TLS handshake, first bytes (`first_bytes`)
//!      v
//!   HTTP/1: a head within HEAD_MAX, the next one too (keep-alive ends with it)
//!   HTTP/2: a ping every PING_EVERY, answered within PING_MAX
//! ```
//!
//! Nothing limits how long an answer takes: blocking queries and followed logs go on.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use protocol_transport::LineLimit;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::first_bytes::FirstBytes;
use super::places::{Place, Places};
use super::plain_http;
use crate::certificates::Https;

/// How long a client may take to send a request's head, and how long a connection may wait for the
/// next one.
const HEAD_MAX: Duration = Duration::from_secs(30);
/// How long requests may go on after the server was told to end.
const GRACE: Duration = Duration::from_secs(2);
/// How often a client that speaks HTTP/2 has to show that it is there.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long it may take to answer.
const PING_MAX: Duration = Duration::from_secs(20);
/// What a plain client is told that has too many connections already.
const TOO_MANY: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\n\
    Content-Type: text/plain\r\nContent-Length: 38\r\n\r\ntoo many connections from this address";
/// The pause after a failed accept: most often there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

static NOT_ACCEPTED: LineLimit = LineLimit::new();
static TOO_MANY_OF_ONE: LineLimit = LineLimit::new();

/// What connections may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenLimits {
    /// At a time; further ones wait in the kernel's queue.
    pub(super) connections_max: usize,
    /// Of one address at a time; further ones are turned away.
    pub(super) per_address_max: usize,
    /// How long a client may take for its TLS handshake, and again for its first bytes.
    pub(super) opening: Duration,
}

/// A connection's place among all, and among those of its address. Requests carry it: whoever goes
/// on with the connection after its HTTP has ended, as a WebSocket does, holds it as long.
#[derive(Clone, Debug)]
pub(super) struct Held {
    counted: Arc<(Place, OwnedSemaphorePermit)>,
}

impl Held {
    /// The client's address.
    pub(super) fn address(&self) -> IpAddr {
        self.counted.0.address()
    }
}

/// Accepts connections until `stopped` says so, each with the certificate of its time.
pub(super) async fn listen(
    router: Router,
    listener: TcpListener,
    https: watch::Receiver<Https>,
    limits: ListenLimits,
    mut stopped: watch::Receiver<bool>,
) {
    let permits = limits.connections_max.min(Semaphore::MAX_PERMITS);
    let permits = Arc::new(Semaphore::new(permits));
    let places = Places::new(limits.per_address_max);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &permits) => accepted,
        };
        let (stream, peer, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(left_out) = NOT_ACCEPTED.admit() {
                    tracing::warn!(%error, left_out, "HTTP connection not accepted");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let acceptor = https.borrow().clone().map(TlsAcceptor::from);
        let Some(place) = places.take(peer.ip()) else {
            if let Some(left_out) = TOO_MANY_OF_ONE.admit() {
                let max = limits.per_address_max;
                tracing::warn!(
                    %peer, max, left_out,
                    "connection refused: the client has reached limits.http_max_conns_per_client"
                );
            }
            turn_away(&stream, acceptor.is_some());
            continue;
        };
        let opening = Opening {
            acceptor,
            limit: limits.opening,
        };
        let (router, stopped) = (router.clone(), stopped.clone());
        connections.spawn(async move {
            let held = Held {
                counted: Arc::new((place, permit)),
            };
            let router = router.layer(Extension(held.clone()));
            let ended = connection(router, stream, opening, stopped).await;
            drop(held);
            if let Err(reason) = ended {
                tracing::debug!(%peer, %reason, "a connection broke");
            }
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(GRACE, ended).await.is_err() {
        tracing::debug!("requests were cut off: the server ends");
    }
    connections.shutdown().await;
}

/// Says why where the client can read it; what does not fit into the socket at once is not worth a
/// wait.
fn turn_away(stream: &TcpStream, encrypted: bool) {
    if !encrypted {
        let _ = stream.try_write(TOO_MANY);
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

/// How a connection begins.
struct Opening {
    acceptor: Option<TlsAcceptor>,
    limit: Duration,
}

async fn connection(
    router: Router,
    stream: TcpStream,
    Opening { acceptor, limit }: Opening,
    stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    match acceptor {
        None => requests(router, FirstBytes::new(stream, limit), stopped).await,
        Some(acceptor) => {
            let tls = timeout(limit, plain_http::is_tls(&stream)).await;
            if let Ok(Ok(false)) = tls {
                plain_http::turn_away(stream).await;
                return Err("plain HTTP on the HTTPS port".to_owned());
            }
            let stream = timeout(limit, acceptor.accept(stream))
                .await
                .map_err(|_| format!("no TLS handshake within {limit:?}"))?
                .map_err(|error| error.to_string())?;
            requests(router, FirstBytes::new(stream, limit), stopped).await
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
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_MAX);
    let service = TowerToHyperService::new(router);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = serving.as_mut() => return ended.map_err(|error| error.to_string()),
        _ = stopped.wait_for(|stopped| *stopped) => serving.as_mut().graceful_shutdown(),
    }
    serving.await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A listener whose only answer waits until it is let go.
    struct Listening {
        address: SocketAddr,
        answer: Arc<Notify>,
        _stop: watch::Sender<bool>,
    }

    async fn start(limits: ListenLimits) -> Listening {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = Arc::new(Notify::new());
        let waiting = Arc::clone(&answer);
        let router = Router::new().route(
            "/",
            get(move || async move {
                waiting.notified().await;
                "at last"
            }),
        );
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(listen(
            router,
            listener,
            watch::channel(None).1,
            limits,
            stopped,
        ));
        Listening {
            address,
            answer,
            _stop: stop,
        }
    }

    fn limits() -> ListenLimits {
        ListenLimits {
            connections_max: 64,
            per_address_max: 64,
            opening: Duration::from_millis(50),
        }
    }

    async fn connect(listening: &Listening, first: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(listening.address)
            .await
            .expect("connects");
        stream.write_all(first).await.expect("is sent");
        stream
    }

    /// Everything that comes until the server closes.
    async fn rest(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        // A reset is an end too.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("the server closes it");
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn who_says_nothing_is_closed_and_who_waits_for_an_answer_is_not() {
        let listening = start(limits()).await;
        let waiting = connect(&listening, b"GET / HTTP/1.0\r\n\r\n").await;
        assert_eq!(rest(connect(&listening, b"").await).await, "");
        rest(connect(&listening, b"PRI * HTTP").await).await;
        // The limit is over by now; the answer is not, and comes.
        listening.answer.notify_one();
        let answer = rest(waiting).await;
        assert!(answer.ends_with("at last"), "{answer}");
    }

    #[tokio::test]
    async fn a_place_is_taken_as_long_as_somebody_goes_on_with_the_connection() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (keep, mut kept) = tokio::sync::mpsc::channel(1);
        let router = Router::new().route(
            "/",
            get(move |Extension(held): Extension<Held>| async move {
                let _ = keep.try_send(held);
                "done"
            }),
        );
        let (_stop, stopped) = watch::channel(false);
        let limits = ListenLimits {
            per_address_max: 1,
            opening: PATIENCE,
            ..limits()
        };
        tokio::spawn(listen(
            router,
            listener,
            watch::channel(None).1,
            limits,
            stopped,
        ));
        let ask = async || {
            let mut stream = TcpStream::connect(address).await.expect("connects");
            // One that is turned away may be closed already.
            let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await;
            rest(stream).await
        };
        assert!(ask().await.ends_with("done"));
        let held = kept.recv().await.expect("its place");
        assert!(ask().await.starts_with("HTTP/1.1 429 "));
        drop(held);
        let again = async { while !ask().await.ends_with("done") {} };
        timeout(PATIENCE, again).await.expect("a place is free");
    }

    #[tokio::test]
    async fn one_address_does_not_take_all_places() {
        let listening = start(ListenLimits {
            per_address_max: 2,
            opening: PATIENCE,
            ..limits()
        })
        .await;
        let first = connect(&listening, b"").await;
        let second = connect(&listening, b"").await;
        let third = rest(connect(&listening, b"").await).await;
        assert!(third.starts_with("HTTP/1.1 429 "), "{third}");
        assert!(third.ends_with("too many connections from this address"));
        drop(first);
        listening.answer.notify_one();
        let again = async {
            loop {
                let stream = connect(&listening, b"GET / HTTP/1.0\r\n\r\n").await;
                let answer = rest(stream).await;
                if !answer.starts_with("HTTP/1.1 429 ") {
                    return answer;
                }
            }
        };
        let answer = timeout(PATIENCE, again).await.expect("a place is free");
        assert!(answer.ends_with("at last"), "{answer}");
        drop(second);
    }
}
