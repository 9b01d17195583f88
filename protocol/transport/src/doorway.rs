//! The door of a listener, and the places of the peers that were let in: what holds the pure
//! [`Door`] together with connections and clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quinn::Incoming;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::door::{Door, DoorState, Lane, Step, Wish};

/// The door's clock at the start of the process: wishes may be older.
const CLOCK_START: Duration = Duration::from_secs(24 * 3600);

/// A peer's place among those that are being served; clones are the same place. It is free after
/// [`Place::live`] or [`Place::free`], or when all clones are dropped.
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
    /// The peer's session is live: the next one is let in.
    pub fn live(&self) {
        self.0.end(Some(self.0.since.elapsed()));
    }

    /// The peer's session will never be live: the next one is let in.
    pub fn free(&self) {
        self.0.end(None);
    }
}

impl Taken {
    fn end(&self, live_after: Option<Duration>) {
        if !self.free.swap(true, Ordering::Relaxed) {
            let now = self.doorway.clock(Instant::now());
            self.doorway.0.door.lock().ended(self.lane, live_after, now);
            self.doorway.0.changed.notify_one();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.end(None);
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
    pub(crate) fn new() -> Self {
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

    /// Waits until a place is free.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    fn clock(&self, now: Instant) -> Duration {
        CLOCK_START + now.saturating_duration_since(self.0.started)
    }

    fn at(&self, clock: Duration) -> Instant {
        self.0.started + clock.saturating_sub(CLOCK_START)
    }

    /// Takes a first packet: it waits, is refused, or has to prove its address first.
    pub(crate) fn arrive(&self, incoming: Incoming) {
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

    /// The next action.
    pub(crate) fn next(&self) -> Option<Step<Incoming>> {
        let now = self.clock(Instant::now());
        self.0.door.lock().next(now)
    }

    /// When the next one has waited for too long.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = self.0.door.lock().due()?;
        Some(self.at(due))
    }

    /// The place that [`Step::Begin`] took.
    pub(crate) fn place(&self, lane: Lane) -> Place {
        Place(Arc::new(Taken {
            doorway: self.clone(),
            lane,
            since: Instant::now(),
            free: AtomicBool::new(false),
        }))
    }
}
