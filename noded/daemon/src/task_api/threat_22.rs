//! Threat 22: heads that come slowly, or not at all, do not hold a connection. Time is virtual.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use noded_core::RunKey;
use noded_core::key::RunEpoch;
use noded_core::task_api::{Guard, SocketLimits};
use parking_lot::Mutex;
use protocol_model::AllocId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use super::listen::{Connection, Socket, Strangers, serve};
use super::peer::PeerRule;
use super::verify::TokenJudge;
use super::{Shared, SocketOwner};
use crate::config::Peers;
use crate::keys::KeyStore;

/// A head that is longer on the way is given up.
const HEAD_MAX: Duration = Duration::from_secs(60);

/// A connection of a socket without a server, as it is served.
fn connect() -> (UnixStream, Arc<Socket>) {
    let owner = SocketOwner {
        alloc: AllocId::from_u128(1),
        task: "web".to_owned(),
    };
    let run = RunKey {
        alloc: owner.alloc,
        task: owner.task.clone(),
        epoch: RunEpoch(1),
    };
    let (inputs, _) = mpsc::channel(1);
    let socket = Arc::new(Socket {
        guard: Mutex::new(Guard::new(SocketLimits::default())),
        peers: PeerRule::new(Peers::Any, "tasks", &owner, 0),
        owner,
        shared: Arc::new(Shared {
            under_way: Arc::new(Semaphore::new(1)),
            tokens: TokenJudge::new(Arc::new(KeyStore::in_memory())),
            forwarder: OnceLock::new(),
        }),
        strangers: Strangers::new(Arc::new(Mutex::new(run)), inputs),
    });
    let (near, far) = UnixStream::pair().expect("a pair");
    assert!(socket.guard.lock().open());
    let connection = Connection {
        socket: Arc::clone(&socket),
        uid: 0,
        stream: Mutex::new(None),
    };
    tokio::spawn(serve(far, connection));
    (near, socket)
}

/// Reads to the end of the connection.
async fn answer(mut stream: UnixStream) -> String {
    let mut answer = Vec::new();
    let read = timeout(2 * HEAD_MAX, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the connection stays open");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(start_paused = true)]
async fn head_that_stops_or_never_begins_ends_its_connection() {
    for begun in ["", "GET / HTTP/1.1\r\nX-Nomad-Token: a.b.c\r\nX: "] {
        let (mut stream, socket) = connect();
        stream.write_all(begun.as_bytes()).await.expect("is sent");
        let answer = answer(stream).await;
        assert!(!answer.contains("HTTP/1.1 2"), "{answer}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(Arc::strong_count(&socket), 1, "its place is free");
    }
}

#[tokio::test(start_paused = true)]
async fn head_that_comes_byte_by_byte_has_a_minute_all_the_same() {
    let (mut stream, _) = connect();
    let since = Instant::now();
    for byte in b"GET / HTTP/1.1\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert!(since.elapsed() < 2 * HEAD_MAX, "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_next_request_ends() {
    let (mut stream, _) = connect();
    let whole = "GET / HTTP/1.1\r\nX-Nomad-Token: 11111111-2222-3333-4444-555555555555\r\n\r\n";
    stream.write_all(whole.as_bytes()).await.expect("is sent");
    // There is no server.
    let answer = answer(stream).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}
