//! Accepting connections: every handshake has a deadline, and only so many run at a time, so
//! that peers who never finish one cannot keep others out.
//!
//! ```text
//!   Incoming --no permit--> refuse
//!      |  half of the permits used, address unproven --> Retry
//!      v
//!   handshake (deadline) --> PeerIdentity --no role--> close NOT_WELCOME
//!      |
//!      v
//!   queue --full--> close OVERLOADED
//!      |
//!      v
//!   Listener::accept
//! ```

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::endpoint::{Limits, close_code};
use crate::identity::PeerIdentity;

/// An authenticated connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub connection: quinn::Connection,
    pub identity: PeerIdentity,
}

/// The receiving end of an endpoint. Dropping it stops accepting; open connections live on.
#[derive(Debug)]
pub struct Listener {
    peers: mpsc::Receiver<Peer>,
    worker: JoinHandle<()>,
}

impl Listener {
    pub(crate) fn start(endpoint: quinn::Endpoint, limits: Limits) -> Self {
        let (sender, peers) = mpsc::channel(limits.accept_queue_max.max(1));
        let worker = tokio::spawn(accept_all(endpoint, limits, sender));
        Self { peers, worker }
    }

    /// The next peer; `None` once the endpoint is closed. Cancel-safe.
    pub async fn accept(&mut self) -> Option<Peer> {
        self.peers.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

async fn accept_all(endpoint: quinn::Endpoint, limits: Limits, peers: mpsc::Sender<Peer>) {
    let handshakes_max = limits.handshakes_max.max(1);
    let handshakes = Arc::new(Semaphore::new(handshakes_max));
    while let Some(incoming) = endpoint.accept().await {
        let Ok(permit) = Arc::clone(&handshakes).try_acquire_owned() else {
            incoming.refuse();
            continue;
        };
        let crowded = handshakes.available_permits() < handshakes_max / 2;
        if crowded && incoming.may_retry() && !incoming.remote_address_validated() {
            // `may_retry` was asked, so this cannot fail.
            let _ = incoming.retry();
            continue;
        }
        let peers = peers.clone();
        let limit = limits.handshake_timeout;
        tokio::spawn(async move {
            let _permit = permit;
            let address = incoming.remote_address();
            match timeout(limit, incoming).await {
                Err(_) => tracing::debug!(%address, ?limit, "handshake took too long"),
                Ok(Err(error)) => tracing::debug!(%address, %error, "handshake failed"),
                Ok(Ok(connection)) => place(connection, &peers),
            }
        });
    }
}

fn place(connection: quinn::Connection, peers: &mpsc::Sender<Peer>) {
    let address = connection.remote_address();
    let identity = match PeerIdentity::of_connection(&connection) {
        Ok(identity) => identity,
        Err(error) => {
            tracing::warn!(%address, %error, "peer refused");
            connection.close(close_code::NOT_WELCOME.into(), b"certificate names no role");
            return;
        }
    };
    if let Err(refused) = peers.try_send(Peer {
        connection,
        identity,
    }) {
        tracing::warn!(%address, "accept queue is full, peer turned away");
        refused
            .into_inner()
            .connection
            .close(close_code::OVERLOADED.into(), b"overloaded");
    }
}
