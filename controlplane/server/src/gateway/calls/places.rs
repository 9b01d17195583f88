//! How many calls there may be at a time: what a caller does not read waits in this process, and
//! what waits in one call must not be in the way of others. Calls beyond that wait a moment for one
//! that ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::idle::Use;

/// Calls to one node: as many streams of its second connection hold a whole window.
pub(super) const CALLS_OF_NODE_MAX: u32 = 64;
/// Calls to all nodes that are in a session here.
const CALLS_MAX: u32 = 256;
/// Calls that are relayed by other servers, from here.
pub(super) const RELAYED_MAX: u32 = 128;
/// How long a call waits for others to end: shorter than a server waits for another one's answer.
const TURN_MAX: Duration = Duration::from_secs(2);

/// A node's connection for calls.
#[derive(Debug, Clone)]
pub(in crate::gateway) struct NodeCalls {
    pub(super) connection: quinn::Connection,
    places: Arc<Semaphore>,
    /// Calls that began.
    begun: Arc<AtomicU64>,
}

/// Why a call gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// Too many others do not end.
    TooMany,
    /// The node's connection takes no new calls: another one is needed.
    Closed,
}

/// Places of this server.
#[derive(Debug)]
pub(in crate::gateway) struct Places {
    here: Arc<Semaphore>,
    relayed: Arc<Semaphore>,
}

/// What an open call holds.
#[derive(Debug)]
pub(super) struct Place {
    _of_server: OwnedSemaphorePermit,
    _of_node: Option<OwnedSemaphorePermit>,
}

impl NodeCalls {
    /// Without any calls.
    pub(super) fn new(connection: quinn::Connection) -> Self {
        Self {
            connection,
            places: semaphore(CALLS_OF_NODE_MAX),
            begun: Arc::default(),
        }
    }

    /// Whether new calls can be opened on it.
    pub(super) fn stands(&self) -> bool {
        self.connection.close_reason().is_none() && !self.places.is_closed()
    }

    pub(super) fn used(&self) -> Use {
        let free = u32::try_from(self.places.available_permits()).unwrap_or(u32::MAX);
        Use {
            open: CALLS_OF_NODE_MAX.saturating_sub(free),
            begun: self.begun.load(Ordering::Relaxed),
        }
    }

    /// Lets no new call begin, unless one is open: `false`. A call that begins at the same time
    /// gets [`NoPlace::Closed`].
    pub(super) fn retire(&self) -> bool {
        retire(&self.places)
    }
}

impl Default for Places {
    fn default() -> Self {
        Self {
            here: semaphore(CALLS_MAX),
            relayed: semaphore(RELAYED_MAX),
        }
    }
}

impl Places {
    /// A place of a call to a node that is here.
    pub(super) async fn take_here(&self, calls: &NodeCalls) -> Result<Place, NoPlace> {
        let until = Instant::now() + TURN_MAX;
        // The node's place first: calls that wait for a busy node delay no call to another.
        let of_node = take(&calls.places, until).await?;
        calls.begun.fetch_add(1, Ordering::Relaxed);
        Ok(Place {
            _of_node: Some(of_node),
            _of_server: take(&self.here, until).await?,
        })
    }

    /// A place of a call to a node that is elsewhere; `None` = too many others do not end.
    pub(super) async fn take_relayed(&self) -> Option<Place> {
        let of_server = take(&self.relayed, Instant::now() + TURN_MAX).await;
        Some(Place {
            _of_node: None,
            _of_server: of_server.ok()?,
        })
    }
}

async fn take(places: &Arc<Semaphore>, until: Instant) -> Result<OwnedSemaphorePermit, NoPlace> {
    let taken = timeout_at(until, Arc::clone(places).acquire_owned()).await;
    taken
        .map_err(|_| NoPlace::TooMany)?
        .map_err(|_| NoPlace::Closed)
}

fn retire(places: &Semaphore) -> bool {
    let all_free = places.try_acquire_many(CALLS_OF_NODE_MAX);
    let idle = all_free.is_ok();
    if idle {
        // Before the permits return: a call that waits for one now gets an error.
        places.close();
    }
    idle
}

fn semaphore(places: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(places as usize))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn a_call_waits_until_another_ends() {
        let places = Places::default();
        let mut held: Vec<Place> = Vec::new();
        for _ in 0..RELAYED_MAX {
            held.push(places.take_relayed().await.expect("there is one"));
        }
        let mut waits = pin!(places.take_relayed());
        assert!(poll!(&mut waits).is_pending());
        held.pop();
        assert!(waits.await.is_some());
    }

    #[tokio::test]
    async fn places_of_a_node_are_retired_only_without_open_calls() {
        let places = semaphore(CALLS_OF_NODE_MAX);
        let soon = || Instant::now() + TURN_MAX;
        let open = take(&places, soon()).await.expect("there is one");
        assert!(!retire(&places));
        drop(open);
        assert!(retire(&places));
        let refused = take(&places, soon()).await;
        assert_eq!(refused.err(), Some(NoPlace::Closed));
    }
}
