//! The link of a client to the servers: it is cut without closing a connection, both ways, and what
//! was sent meanwhile arrives once it is healed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Bytes that are handed on at a time.
const CHUNK: usize = 4096;

/// A port of this host that leads to the HTTP port of a server. Dropping it closes the port.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) port: u16,
    server: Arc<AtomicU16>,
    passes: watch::Sender<bool>,
    listening: JoinHandle<()>,
}

impl Link {
    /// A link that leads to this port.
    pub(super) async fn to(server: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let server = Arc::new(AtomicU16::new(server));
        let passes = watch::Sender::new(true);
        let (target, gate) = (Arc::clone(&server), passes.subscribe());
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = target.load(Ordering::Relaxed);
                tokio::spawn(connect(client, server, gate.clone()));
            }
        });
        Ok(Self {
            port,
            server,
            passes,
            listening,
        })
    }

    /// The port that new connections lead to.
    pub(super) fn server(&self) -> u16 {
        self.server.load(Ordering::Relaxed)
    }

    /// New connections lead to this port.
    pub(super) fn lead_to(&self, server: u16) {
        self.server.store(server, Ordering::Relaxed);
    }

    /// Nothing arrives any more, neither requests nor answers.
    pub(super) fn cut(&self) {
        self.passes.send_replace(false);
    }

    /// Everything arrives, also what was sent meanwhile.
    pub(super) fn heal(&self) {
        self.passes.send_replace(true);
    }

    /// Says when the link passes bytes.
    pub(super) fn gate(&self) -> watch::Receiver<bool> {
        self.passes.subscribe()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn connect(client: TcpStream, server: u16, gate: watch::Receiver<bool>) {
    // A server that is down closes the connection.
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        copy(from_client, to_server, gate.clone()),
        copy(from_server, to_client, gate),
    );
}

/// Hands bytes on until an end closes; that the end closed is handed on like a byte.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut gate: watch::Receiver<bool>,
) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = from.read(&mut chunk).await.unwrap_or(0);
        if gate.wait_for(|passes| *passes).await.is_err() {
            return;
        }
        if read == 0 {
            let _ = to.shutdown().await;
            return;
        }
        if to.write_all(&chunk[..read]).await.is_err() {
            return;
        }
    }
}
