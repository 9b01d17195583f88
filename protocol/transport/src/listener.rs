//! Accepting connections: every handshake has a deadline, and only so many run at a time, so
//! that peers who never finish one cannot keep others out.
//!
//! ```text
//!   Incoming --no permit--> refuse
//!      |  half of the permits used, address unproven --> Retry
//!      v
//!   handshake (deadline) --> PeerIdentity --no role--> close NOT_WELCOME
//!      |  known again: in the queue at once, its handshake goes on
//!      v
//!   queue --full--> close OVERLOADED
//!      |
//!      v
//!   Listener::accept
//! ```

use std::sync::Arc;

use quinn::VarInt;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::endpoint::{Limits, close_code};
use crate::identity::PeerIdentity;
use crate::line_limit::LineLimit;
use crate::role::Role;

static NOT_AWAITED: LineLimit = LineLimit::new();
static REFUSED: LineLimit = LineLimit::new();
static TURNED_AWAY: LineLimit = LineLimit::new();

/// An authenticated connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub connection: quinn::Connection,
    pub identity: PeerIdentity,
    pub handshake: Handshake,
}

/// Whether a peer's handshake is over. Until then, what it says is what it once said with a first
/// packet, but perhaps not now: whoever kept the packet back can send it later, once.
#[derive(Debug, Clone)]
pub struct Handshake(watch::Receiver<bool>);

impl Handshake {
    /// Waits until it is over: the peer itself is there now. `false` where it never will be.
    pub async fn done(&mut self) -> bool {
        self.0.wait_for(|done| *done).await.is_ok()
    }
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
    let limits = Arc::new(limits);
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
        let limits = Arc::clone(&limits);
        tokio::spawn(async move {
            let _permit = permit;
            let address = incoming.remote_address();
            match incoming.accept().map(quinn::Connecting::into_0rtt) {
                Err(error) => tracing::debug!(%address, %error, "handshake failed"),
                // A server's side can always be used before it is over.
                Ok(Err(_)) => {
                    if let Some(left_out) = NOT_AWAITED.admit() {
                        tracing::error!(%address, left_out, "a handshake cannot be waited for");
                    }
                }
                Ok(Ok((connection, over))) => shake_hands(connection, over, &limits, &peers).await,
            }
        });
    }
}

/// Sees a handshake to its end. A peer whose ticket was good has shown its certificate before, and
/// is let in at once.
async fn shake_hands(
    connection: quinn::Connection,
    over: quinn::ZeroRttAccepted,
    limits: &Limits,
    peers: &mpsc::Sender<Peer>,
) {
    let address = connection.remote_address();
    let (done, handshake) = watch::channel(false);
    let handshake = Handshake(handshake);
    let known = PeerIdentity::of_connection(&connection).ok();
    let is_known = known.is_some();
    if let Some(identity) = known {
        hand_over(
            connection.clone(),
            identity,
            handshake.clone(),
            limits,
            peers,
        );
    }
    let limit = limits.handshake_timeout;
    if timeout(limit, over).await.is_err() {
        tracing::debug!(%address, ?limit, "handshake took too long");
        connection.close(close_code::UNRESPONSIVE.into(), b"handshake took too long");
        return;
    }
    if let Some(error) = connection.close_reason() {
        tracing::debug!(%address, %error, "handshake failed");
        return;
    }
    done.send_replace(true);
    if is_known {
        return;
    }
    match PeerIdentity::of_connection(&connection) {
        Ok(identity) => hand_over(connection, identity, handshake, limits, peers),
        Err(error) => {
            if let Some(left_out) = REFUSED.admit() {
                tracing::warn!(%address, %error, left_out, "peer refused");
            }
            connection.close(close_code::NOT_WELCOME.into(), b"certificate names no role");
        }
    }
}

/// Hands an authenticated connection to whoever accepts.
fn hand_over(
    connection: quinn::Connection,
    identity: PeerIdentity,
    handshake: Handshake,
    limits: &Limits,
    peers: &mpsc::Sender<Peer>,
) {
    if identity.role == Role::Server {
        let streams = VarInt::from_u32(limits.server_streams_max);
        connection.set_max_concurrent_bi_streams(streams);
    }
    let address = connection.remote_address();
    if let Err(refused) = peers.try_send(Peer {
        connection,
        identity,
        handshake,
    }) {
        if let Some(left_out) = TURNED_AWAY.admit() {
            tracing::warn!(%address, left_out, "accept queue is full, peer turned away");
        }
        refused
            .into_inner()
            .connection
            .close(close_code::OVERLOADED.into(), b"overloaded");
    }
}
