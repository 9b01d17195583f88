//! Accepting connections: who waits for a place at the door, who is served, and until when.
//!
//! ```text
//!   Incoming --crowded, address unproven--> Retry
//!      v
//!   door: waits --too many, for too long--> refused, without any cryptography
//!      v
//!   handshake (deadline) --> PeerIdentity --no role--> close NOT_WELCOME
//!      |  known again: in the queue at once, its handshake goes on
//!      v
//!   queue --full--> close OVERLOADED
//!      |
//!      v
//!   Listener::accept --> Peer, with its place until its session is live
//! ```

use std::sync::Arc;
use std::time::Duration;

use quinn::{Incoming, VarInt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use crate::door::{Step, Wish, WishKind};
use crate::doorway::{Doorway, Place};
use crate::endpoint::{Limits, close_code};
use crate::identity::PeerIdentity;
use crate::line_limit::LineLimit;
use crate::role::Role;

static NOT_AWAITED: LineLimit = LineLimit::new();
static REFUSED: LineLimit = LineLimit::new();
static TURNED_AWAY: LineLimit = LineLimit::new();

/// How long a node whose handshake is over keeps its place while its session is not live.
const UNTIL_LIVE_MAX: Duration = Duration::from_secs(5);

/// An authenticated connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub connection: quinn::Connection,
    pub identity: PeerIdentity,
    pub handshake: Handshake,
    pub place: Place,
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
    doorway: Doorway,
    worker: JoinHandle<()>,
}

impl Listener {
    pub(crate) fn start(endpoint: quinn::Endpoint, limits: Limits) -> Self {
        let (sender, peers) = mpsc::channel(limits.accept_queue_max.max(1));
        let doorway = Doorway::new();
        let worker = tokio::spawn(accept_all(endpoint, limits, doorway.clone(), sender));
        Self {
            peers,
            doorway,
            worker,
        }
    }

    /// The next peer; `None` once the endpoint is closed. Cancel-safe.
    pub async fn accept(&mut self) -> Option<Peer> {
        self.peers.recv().await
    }

    /// Where peers wait for it.
    pub fn doorway(&self) -> &Doorway {
        &self.doorway
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

async fn accept_all(
    endpoint: quinn::Endpoint,
    limits: Limits,
    doorway: Doorway,
    peers: mpsc::Sender<Peer>,
) {
    let limits = Arc::new(limits);
    loop {
        let due = doorway.due();
        let overdue = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => doorway.arrive(incoming),
                None => return,
            },
            () = doorway.changed() => {}
            () = overdue => {}
        }
        while let Some(step) = doorway.next() {
            match step {
                Step::Refuse(incoming) => incoming.refuse(),
                Step::Begin(incoming, lane) => {
                    let place = doorway.place(lane);
                    let served = serve(incoming, place, Arc::clone(&limits), peers.clone());
                    tokio::spawn(served);
                }
            }
        }
    }
}

async fn serve(incoming: Incoming, place: Place, limits: Arc<Limits>, peers: mpsc::Sender<Peer>) {
    let address = incoming.remote_address();
    let wish = Wish::decode(&incoming.orig_dst_cid());
    match incoming.accept().map(quinn::Connecting::into_0rtt) {
        Err(error) => tracing::debug!(%address, %error, "handshake failed"),
        // A server's side can always be used before it is over.
        Ok(Err(_)) => {
            if let Some(left_out) = NOT_AWAITED.admit() {
                tracing::error!(%address, left_out, "a handshake cannot be waited for");
            }
        }
        Ok(Ok((connection, over))) => {
            let shaken = shake_hands(&connection, over, &place, &limits, &peers).await;
            if shaken && wish.is_some_and(|wish| wish.kind == WishKind::Session) {
                let ended = timeout(UNTIL_LIVE_MAX, connection.closed()).await;
                if ended.is_err() {
                    // It counts by the time that it has taken.
                    place.live();
                }
            }
        }
    }
    place.free();
}

/// Sees a handshake to its end. A peer whose ticket was good has shown its certificate before, and
/// is let in at once. Answers whether it succeeded.
async fn shake_hands(
    connection: &quinn::Connection,
    over: quinn::ZeroRttAccepted,
    place: &Place,
    limits: &Limits,
    peers: &mpsc::Sender<Peer>,
) -> bool {
    let address = connection.remote_address();
    let (done, handshake) = watch::channel(false);
    let handshake = Handshake(handshake);
    let hand_over = |identity| {
        let peer = Peer {
            connection: connection.clone(),
            identity,
            handshake: handshake.clone(),
            place: place.clone(),
        };
        hand_over(peer, limits, peers);
    };
    let known = PeerIdentity::of_connection(connection).ok();
    let is_known = known.is_some();
    if let Some(identity) = known {
        hand_over(identity);
    }
    let limit = limits.handshake_timeout;
    if timeout(limit, over).await.is_err() {
        tracing::debug!(%address, ?limit, "handshake took too long");
        connection.close(close_code::UNRESPONSIVE.into(), b"handshake took too long");
        return false;
    }
    if let Some(error) = connection.close_reason() {
        tracing::debug!(%address, %error, "handshake failed");
        return false;
    }
    done.send_replace(true);
    if is_known {
        return true;
    }
    match PeerIdentity::of_connection(connection) {
        Ok(identity) => {
            hand_over(identity);
            true
        }
        Err(error) => {
            if let Some(left_out) = REFUSED.admit() {
                tracing::warn!(%address, %error, left_out, "peer refused");
            }
            connection.close(close_code::NOT_WELCOME.into(), b"certificate names no role");
            false
        }
    }
}

/// Hands an authenticated connection to whoever accepts.
fn hand_over(peer: Peer, limits: &Limits, peers: &mpsc::Sender<Peer>) {
    if peer.identity.role == Role::Server {
        let streams = VarInt::from_u32(limits.server_streams_max);
        peer.connection.set_max_concurrent_bi_streams(streams);
    }
    if let Err(refused) = peers.try_send(peer) {
        let connection = refused.into_inner().connection;
        let address = connection.remote_address();
        if let Some(left_out) = TURNED_AWAY.admit() {
            tracing::warn!(%address, left_out, "accept queue is full, peer turned away");
        }
        connection.close(close_code::OVERLOADED.into(), b"overloaded");
    }
}
