//! How many calls there may be at a time: what a caller does not read waits in this process, and
//! what waits in one call must not be in the way of others. Calls beyond that wait a moment for one
//! that ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

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
        }
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
    /// A place of a call to a node that is here; `None` = too many others do not end.
    pub(super) async fn take_here(&self, calls: &NodeCalls) -> Option<Place> {
        let until = Instant::now() + TURN_MAX;
        // First that of the node: who waits for a busy one keeps nobody from others.
        Some(Place {
            _of_node: Some(take(&calls.places, until).await?),
            _of_server: take(&self.here, until).await?,
        })
    }

    /// A place of a call to a node that is elsewhere.
    pub(super) async fn take_relayed(&self) -> Option<Place> {
        Some(Place {
            _of_node: None,
            _of_server: take(&self.relayed, Instant::now() + TURN_MAX).await?,
        })
    }
}

async fn take(places: &Arc<Semaphore>, until: Instant) -> Option<OwnedSemaphorePermit> {
    let taken = timeout_at(until, Arc::clone(places).acquire_owned()).await;
    taken.ok()?.ok()
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
}
