//! How many calls there may be at a time: what a caller does not read waits in this process, and
//! what waits in one call must not be in the way of others.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls to one node: as many streams of its second connection hold a whole window.
pub(super) const CALLS_OF_NODE_MAX: u32 = 64;
/// Calls to all nodes that are in a session here.
const CALLS_MAX: u32 = 256;
/// Calls that are relayed by other servers, from here.
pub(super) const RELAYED_MAX: u32 = 128;

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
    /// A place of a call to a node that is here; `None` = there are too many.
    pub(super) fn take_here(&self, calls: &NodeCalls) -> Option<Place> {
        Some(Place {
            _of_node: Some(Arc::clone(&calls.places).try_acquire_owned().ok()?),
            _of_server: Arc::clone(&self.here).try_acquire_owned().ok()?,
        })
    }

    /// A place of a call to a node that is elsewhere.
    pub(super) fn take_relayed(&self) -> Option<Place> {
        Some(Place {
            _of_node: None,
            _of_server: Arc::clone(&self.relayed).try_acquire_owned().ok()?,
        })
    }
}

fn semaphore(places: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(places as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_when_calls_end() {
        let places = Places::default();
        let mut held: Vec<Place> = Vec::new();
        while let Some(place) = places.take_relayed() {
            held.push(place);
        }
        assert_eq!(held.len(), RELAYED_MAX as usize);
        held.pop();
        assert!(places.take_relayed().is_some());
    }
}
