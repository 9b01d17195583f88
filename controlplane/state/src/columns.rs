//! The node columns: what the scheduler needs of every node, in rows side by side.
//!
//! A derived table: `apply` changes it with the nodes and allocations it is derived from, a restore
//! rebuilds it, and the invariant checker compares it with a recomputation. Rows live in chunks
//! that snapshots share; a changed row copies its chunk once per snapshot.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};
use protocol_model::{Node, NodeId};

use crate::names::{NameId, Names};
use crate::usage::{Capacity, Usage};

/// How many rows a chunk has: copying one costs about 8 KiB.
const CHUNK_ROWS: u32 = 64;

/// Whether something may be placed on a node now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Readiness {
    /// It is ready, eligible and not draining.
    Ready,
    /// It is not.
    #[default]
    NotReady,
}

/// What the scheduler needs of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRow {
    /// The node.
    pub node: NodeId,
    /// Whether something may be placed on it now.
    pub readiness: Readiness,
    /// Its computed class.
    pub class: NameId,
    /// Its datacenter.
    pub datacenter: NameId,
    /// Its node pool.
    pub pool: NameId,
    /// What it has for allocations.
    pub capacity: Capacity,
    /// What allocations take of it that have not ended: those that are being stopped, too.
    pub used: Usage,
    /// How many those are.
    pub allocs_holding: u32,
}

/// The table. Equal nodes and allocations make equal rows; the order of rows and the numbers of
/// names depend on history, and nothing may be decided by them.
#[derive(Clone, Debug, Default)]
pub struct NodeColumns {
    chunks: Vector<Arc<Vec<Option<NodeRow>>>>,
    slots: OrdMap<NodeId, u32>,
    vacant: OrdSet<u32>,
    names: Names,
}

impl NodeColumns {
    /// The row of `node`.
    pub fn row(&self, node: NodeId) -> Option<&NodeRow> {
        self.row_at(*self.slots.get(&node)?)
    }

    /// The number of `node`'s row, below [`Self::slots`]: an index into a scheduler's own columns.
    pub fn slot(&self, node: NodeId) -> Option<u32> {
        self.slots.get(&node).copied()
    }

    /// The row at `slot`.
    pub fn row_at(&self, slot: u32) -> Option<&NodeRow> {
        let chunk = self.chunks.get((slot / CHUNK_ROWS) as usize)?;
        chunk.get((slot % CHUNK_ROWS) as usize)?.as_ref()
    }

    /// All rows, chunk after chunk, with their slots.
    pub fn rows(&self) -> impl Iterator<Item = (u32, &NodeRow)> + '_ {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
            .zip(0u32..)
            .filter_map(|(row, slot)| row.as_ref().map(|row| (slot, row)))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// One above the highest slot.
    pub fn slots(&self) -> u32 {
        let Some(last) = self.chunks.last() else {
            return 0;
        };
        let rows = (self.chunks.len() - 1) * CHUNK_ROWS as usize + last.len();
        // Four billion nodes do not fit in memory; saturating keeps the arithmetic honest.
        u32::try_from(rows).unwrap_or(u32::MAX)
    }

    /// The text of a class, datacenter or pool.
    pub fn name(&self, id: NameId) -> Arc<str> {
        self.names.text(id)
    }

    /// The number of a class, datacenter or pool, where a node has it.
    pub fn name_id(&self, text: &str) -> Option<NameId> {
        self.names.id(text)
    }

    /// All names of classes, datacenters and pools: what globs are matched against, once each.
    pub fn names(&self) -> impl Iterator<Item = (&str, NameId)> + '_ {
        self.names.iter()
    }

    /// Puts `node`'s facts into its row. A new row starts with `used` and `allocs_holding`.
    pub(crate) fn put_node(&mut self, node: &Node, used: impl FnOnce() -> (Usage, u32)) {
        let readiness = if node.ready() {
            Readiness::Ready
        } else {
            Readiness::NotReady
        };
        let class = self.names.acquire(&node.computed_class);
        let datacenter = self.names.acquire(&node.datacenter);
        let pool = self.names.acquire(&node.node_pool);
        let capacity = Capacity::of(node);
        if let Some(slot) = self.slot(node.id) {
            let Some(row) = self.row_mut(slot) else {
                return;
            };
            let before = [row.class, row.datacenter, row.pool];
            (row.class, row.datacenter, row.pool) = (class, datacenter, pool);
            row.readiness = readiness;
            row.capacity = capacity;
            before.into_iter().for_each(|name| self.names.release(name));
            return;
        }
        let (used, allocs_holding) = used();
        let id = node.id;
        self.push(NodeRow {
            node: id,
            readiness,
            class,
            datacenter,
            pool,
            capacity,
            used,
            allocs_holding,
        });
    }

    /// Forgets a node.
    pub(crate) fn remove_node(&mut self, node: NodeId) {
        let Some(slot) = self.slots.remove(&node) else {
            return;
        };
        let names = self
            .row_at(slot)
            .map(|row| [row.class, row.datacenter, row.pool]);
        names
            .into_iter()
            .flatten()
            .for_each(|name| self.names.release(name));
        if let Some(chunk) = self.chunks.get_mut((slot / CHUNK_ROWS) as usize)
            && let Some(row) = Arc::make_mut(chunk).get_mut((slot % CHUNK_ROWS) as usize)
        {
            *row = None;
        }
        self.vacant.insert(slot);
    }

    /// An allocation takes room of `node`.
    pub(crate) fn add_usage(&mut self, node: NodeId, usage: &Usage) {
        if let Some(row) = self.slot(node).and_then(|slot| self.row_mut(slot)) {
            row.used.add(usage);
            row.allocs_holding += 1;
        }
    }

    /// An allocation takes no room of `node` any more.
    pub(crate) fn subtract_usage(&mut self, node: NodeId, usage: &Usage) {
        if let Some(row) = self.slot(node).and_then(|slot| self.row_mut(slot)) {
            row.used.subtract(usage);
            row.allocs_holding = row.allocs_holding.saturating_sub(1);
        }
    }

    fn push(&mut self, row: NodeRow) {
        let slot = self
            .vacant
            .get_min()
            .copied()
            .unwrap_or_else(|| self.slots());
        self.vacant.remove(&slot);
        self.slots.insert(row.node, slot);
        if slot == self.slots() && slot % CHUNK_ROWS == 0 {
            self.chunks
                .push_back(Arc::new(Vec::with_capacity(CHUNK_ROWS as usize)));
        }
        let Some(chunk) = self.chunks.get_mut((slot / CHUNK_ROWS) as usize) else {
            return;
        };
        let chunk = Arc::make_mut(chunk);
        match chunk.get_mut((slot % CHUNK_ROWS) as usize) {
            Some(vacant) => *vacant = Some(row),
            None => chunk.push(Some(row)),
        }
    }

    fn row_mut(&mut self, slot: u32) -> Option<&mut NodeRow> {
        let chunk = self.chunks.get_mut((slot / CHUNK_ROWS) as usize)?;
        Arc::make_mut(chunk)
            .get_mut((slot % CHUNK_ROWS) as usize)?
            .as_mut()
    }
}
