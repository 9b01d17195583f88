//! The sessions that this server holds.
//!
//! A node may say Hello with its session over a second connection to this server and then go on
//! over the first, which was only slow: each of them is kept until it ends itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::SessionEpoch;
use protocol_model::{AllocId, NodeId};
use tokio::time::Instant;

use super::calls::CallLine;

/// Connections over which one session may go on at a time; the oldest goes first.
const CONNECTIONS_MAX: usize = 4;

/// What the server keeps of a session that it holds.
#[derive(Debug, Clone)]
pub(super) struct SessionEntry {
    pub(super) epoch: SessionEpoch,
    /// Since when it is here.
    pub(super) since: Instant,
    /// Where the node said Hello. Held, so that no other connection can get its id.
    pub(super) connection: quinn::Connection,
    /// The versions that the node reported to have, at its last complete report; `None` where the
    /// session went on here without one: then the watch begins with them.
    pub(super) known: Option<Arc<BTreeMap<AllocId, u64>>>,
    /// The way to the node's connection for calls.
    pub(super) calls: Arc<CallLine>,
}

impl SessionEntry {
    /// One that is made on `connection`.
    pub(super) fn new(
        epoch: SessionEpoch,
        connection: quinn::Connection,
        since: Instant,
        calls: Arc<CallLine>,
    ) -> Self {
        Self {
            epoch,
            since,
            connection,
            known: None,
            calls,
        }
    }
}

/// What is left of a node's session where one of its connections ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// Nothing.
    Last,
    /// It goes on over another connection, or a newer one took its place.
    GoesOn,
}

/// All of them. Of each node those of one epoch, the newest last, and at least one.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    of_nodes: BTreeMap<NodeId, Vec<SessionEntry>>,
}

impl Sessions {
    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.of_nodes.len()
    }

    /// The one in which a node was welcome last.
    pub(super) fn newest(&self, node: NodeId) -> Option<&SessionEntry> {
        self.of_nodes.get(&node)?.last()
    }

    /// The same, if it is of `epoch`.
    pub(super) fn of_epoch(
        &mut self,
        node: NodeId,
        epoch: SessionEpoch,
    ) -> Option<&mut SessionEntry> {
        let newest = self.of_nodes.get_mut(&node)?.last_mut();
        newest.filter(|entry| entry.epoch == epoch)
    }

    /// The one that was made on `connection`, of whichever epoch `node` is in.
    pub(super) fn on(&self, node: NodeId, connection: &quinn::Connection) -> Option<&SessionEntry> {
        let mut entries = self.of_nodes.get(&node)?.iter();
        entries.find(|entry| is_on(entry, connection))
    }

    /// Takes one up; of an earlier epoch nothing is left.
    pub(super) fn open(&mut self, node: NodeId, entry: SessionEntry) {
        let entries = self.of_nodes.entry(node).or_default();
        let same =
            |known: &SessionEntry| known.epoch == entry.epoch && !is_on(known, &entry.connection);
        entries.retain(same);
        if entries.len() >= CONNECTIONS_MAX {
            entries.remove(0);
        }
        entries.push(entry);
    }

    /// Forgets the one that was made on `connection`.
    pub(super) fn close(
        &mut self,
        node: NodeId,
        epoch: SessionEpoch,
        connection: &quinn::Connection,
    ) -> Closed {
        let Some(entries) = self.of_nodes.get_mut(&node) else {
            return Closed::GoesOn;
        };
        let before = entries.len();
        entries.retain(|entry| entry.epoch != epoch || !is_on(entry, connection));
        if entries.len() == before || !entries.is_empty() {
            return Closed::GoesOn;
        }
        self.of_nodes.remove(&node);
        Closed::Last
    }
}

fn is_on(entry: &SessionEntry, connection: &quinn::Connection) -> bool {
    entry.connection.stable_id() == connection.stable_id()
}
