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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quinn::{Incoming, VarInt};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::door::{Door, DoorState, Lane, Step, Wish, WishKind};
use crate::endpoint::{Limits, close_code};
use crate::identity::PeerIdentity;
use crate::line_limit::LineLimit;
use crate::role::Role;

static NOT_AWAITED: LineLimit = LineLimit::new();
static REFUSED: LineLimit = LineLimit::new();
static TURNED_AWAY: LineLimit = LineLimit::new();

/// How long a node whose handshake is over keeps its place while its session is not live.
const UNTIL_LIVE_MAX: Duration = Duration::from_secs(5);
/// The door's clock at the start of the process: wishes may be older.
const CLOCK_START: Duration = Duration::from_secs(24 * 3600);

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

/// A peer's place among those that are being served; clones are the same place. It is free after
/// [`Place::free`], or when all clones are dropped.
#[derive(Debug, Clone)]
pub struct Place(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    doorway: Doorway,
    lane: Lane,
    since: Instant,
    free: AtomicBool,
}

impl Place {
    /// The peer has what it came for: the next one is let in.
    pub fn free(&self) {
        self.0.free();
    }
}

impl Taken {
    fn free(&self) {
        if !self.free.swap(true, Ordering::Relaxed) {
            let (lane, took) = (self.lane, self.since.elapsed());
            let now = self.doorway.clock(Instant::now());
            self.doorway.0.door.lock().ended(lane, took, now);
            self.doorway.0.changed.notify_one();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.free();
    }
}

/// The door of a listener, for the listener's owner. Clones share it.
#[derive(Debug, Clone)]
pub struct Doorway(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    door: Mutex<Door<Incoming>>,
    changed: Notify,
    started: Instant,
}

impl Doorway {
    fn new() -> Self {
        Self(Arc::new(Shared {
            door: Mutex::default(),
            changed: Notify::new(),
            started: Instant::now(),
        }))
    }

    /// How long what this process receives waits to be read: see [`Door::set_delay`].
    pub fn set_delay(&self, delay: Duration, now: Instant) {
        self.0.door.lock().set_delay(delay, self.clock(now));
    }

    /// How it stands at `now`.
    pub fn state(&self, now: Instant) -> DoorState {
        self.0.door.lock().state(self.clock(now))
    }

    /// How long ago the last node was refused.
    pub fn refused_since(&self, now: Instant) -> Option<Duration> {
        let at = self.state(now).refused_at?;
        Some(self.clock(now).saturating_sub(at))
    }

    fn clock(&self, now: Instant) -> Duration {
        CLOCK_START + now.saturating_duration_since(self.0.started)
    }

    fn at(&self, clock: Duration) -> Instant {
        self.0.started + clock.saturating_sub(CLOCK_START)
    }

    fn arrive(&self, incoming: Incoming) {
        let mut door = self.0.door.lock();
        if door.is_crowded() && incoming.may_retry() && !incoming.remote_address_validated() {
            drop(door);
            // `may_retry` was asked, so this cannot fail.
            let _ = incoming.retry();
            return;
        }
        let wish = Wish::decode(&incoming.orig_dst_cid());
        let refused = door.arrive(wish, incoming, self.clock(Instant::now()));
        drop(door);
        if let Some(refused) = refused {
            refused.refuse();
        }
    }

    fn next(&self) -> Option<Step<Incoming>> {
        let now = self.clock(Instant::now());
        self.0.door.lock().next(now)
    }

    fn due(&self) -> Option<Instant> {
        let due = self.0.door.lock().due()?;
        Some(self.at(due))
    }

    fn place(&self, lane: Lane) -> Place {
        Place(Arc::new(Taken {
            doorway: self.clone(),
            lane,
            since: Instant::now(),
            free: AtomicBool::new(false),
        }))
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
    /// Peers wait and are refused on `receiver`, and are served on `runtime`.
    pub(crate) fn start(
        endpoint: quinn::Endpoint,
        limits: Limits,
        receiver: &Handle,
        runtime: Handle,
    ) -> Self {
        let (sender, peers) = mpsc::channel(limits.accept_queue_max.max(1));
        let doorway = Doorway::new();
        let accepting = accept_all(endpoint, limits, doorway.clone(), sender, runtime);
        let worker = receiver.spawn(accepting);
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
    runtime: Handle,
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
            () = doorway.0.changed.notified() => {}
            () = overdue => {}
        }
        while let Some(step) = doorway.next() {
            match step {
                Step::Refuse(incoming) => incoming.refuse(),
                Step::Begin(incoming, lane) => {
                    let place = doorway.place(lane);
                    let served = serve(incoming, place, Arc::clone(&limits), peers.clone());
                    runtime.spawn(served);
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
                let _ = timeout(UNTIL_LIVE_MAX, connection.closed()).await;
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
