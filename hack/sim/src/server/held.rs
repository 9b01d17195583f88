//! The sessions that a server holds: the server's `gateway/held.rs`. A node may say Hello with its
//! session over a second connection and then go on over the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::SessionEpoch;
use protocol_model::AllocId;

use crate::event::NodeIx;
use crate::net::ConnId;

/// Connections over which one session may go on at a time; the oldest goes first (as the server).
const CONNECTIONS_MAX: usize = 4;

/// What the server keeps of a session that it holds.
#[derive(Clone, Debug)]
pub(super) struct SessionEntry {
    pub(super) epoch: SessionEpoch,
    /// The connection that it lives on: streams of another are none of it.
    pub(super) conn: ConnId,
    /// `None` where the session went on here without a complete report.
    pub(super) known: Option<Arc<BTreeMap<AllocId, u64>>>,
}

/// All of them. Of each node those of one epoch, the newest last, and at least one.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    of_nodes: BTreeMap<NodeIx, Vec<SessionEntry>>,
}

impl Sessions {
    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.of_nodes.len()
    }

    /// The one that streams of a connection belong to.
    pub(super) fn own(
        &self,
        node: NodeIx,
        epoch: SessionEpoch,
        conn: ConnId,
    ) -> Option<&SessionEntry> {
        let entries = self.of_nodes.get(&node)?;
        let mut own = entries.iter().filter(|entry| entry.epoch == epoch);
        own.find(|entry| entry.conn == conn)
    }

    /// The newest, if it is of `epoch`.
    pub(super) fn of_epoch(
        &mut self,
        node: NodeIx,
        epoch: SessionEpoch,
    ) -> Option<&mut SessionEntry> {
        let newest = self.of_nodes.get_mut(&node)?.last_mut();
        newest.filter(|entry| entry.epoch == epoch)
    }

    /// Takes one up; of an earlier epoch nothing is left.
    pub(super) fn open(&mut self, node: NodeIx, entry: SessionEntry) {
        let entries = self.of_nodes.entry(node).or_default();
        entries.retain(|known| known.epoch == entry.epoch && known.conn != entry.conn);
        if entries.len() >= CONNECTIONS_MAX {
            entries.remove(0);
        }
        entries.push(entry);
    }

    /// Forgets what was made on a connection. Answers whether nothing is left of the session.
    pub(super) fn close(&mut self, node: NodeIx, conn: ConnId) -> bool {
        let Some(entries) = self.of_nodes.get_mut(&node) else {
            return false;
        };
        let before = entries.len();
        entries.retain(|entry| entry.conn != conn);
        if entries.len() == before || !entries.is_empty() {
            return false;
        }
        self.of_nodes.remove(&node);
        true
    }
}
