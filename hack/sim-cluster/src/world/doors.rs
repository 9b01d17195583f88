//! The ways to the servers that run, for clients that go on by themselves.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::net::Machine;
use crate::server::Door;

/// One way for each server that runs. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Doors {
    of: Arc<Mutex<Vec<Option<Door>>>>,
}

impl Doors {
    /// For so many servers, none of which runs.
    pub(super) fn new(servers: u8) -> Self {
        let none = (0..servers).map(|_| None).collect();
        Self {
            of: Arc::new(Mutex::new(none)),
        }
    }

    /// A server began to run, or ended.
    pub(super) fn set(&self, server: Machine, door: Option<Door>) {
        if let Some(slot) = self.of.lock().get_mut(usize::from(server)) {
            *slot = door;
        }
    }

    /// The way to a server; `None` = it does not run.
    pub(super) fn at(&self, server: Machine) -> Option<Door> {
        self.of.lock().get(usize::from(server))?.clone()
    }

    /// The way to a server, or to another one where it does not run.
    pub(super) fn near(&self, server: Machine) -> Option<Door> {
        let first = self.at(server);
        first.or_else(|| self.of.lock().iter().flatten().next().cloned())
    }
}
