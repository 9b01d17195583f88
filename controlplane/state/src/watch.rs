//! What is wanted of a node's allocations, as a chain: what a watch tells, decided apart from how
//! it is written.
//!
//! ```text
//!   Map (complete, at i) --> Link (i -> j) --> Link (j -> k)
//! ```
//!
//! The map names every allocation that the node may have; what the node already acts on in that
//! version is not told again. A link holds what changed since the index before it. Allocations that
//! the node is done with and does not know any more are left out: it has nothing to do for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{
    AllocId, AllocMetric, Allocation, Incarnation, Job, NodeId, NodeStatus, SpecHash,
};

use crate::record::SessionEpoch;
use crate::snapshot::Snapshot;

/// Desired state is told only to a session whose complete report was taken in.
pub fn is_ready(snapshot: &Snapshot, node: NodeId, epoch: SessionEpoch) -> bool {
    snapshot.node(node).is_some_and(|record| {
        record.session.epoch == epoch
            && record.session.synced_index > 0
            && record.node.status == NodeStatus::Ready
    })
}

/// How allocations and specifications are written, and how large they are then.
pub trait Encode {
    /// A specification, written.
    type Spec;
    /// An allocation, written.
    type Alloc;

    /// Writes a specification; answers its size beside it.
    ///
    /// # Errors
    /// When it cannot be written; the watch ends.
    fn spec(&mut self, hash: SpecHash, spec: &Arc<Job>) -> Result<(Self::Spec, usize), String>;

    /// Writes an allocation and the number of the root key that signs its identities (0 = none);
    /// answers its size beside it.
    ///
    /// # Errors
    /// When it cannot be written; the watch ends.
    fn alloc(&mut self, alloc: Allocation, root_key: u32) -> Result<(Self::Alloc, usize), String>;
}

/// How large a link gets, in the encoder's sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSizes {
    /// A link beyond this ends where it may.
    pub wanted: usize,
    /// One beyond this that may not end is an error. What is larger is told by a new watch, whose
    /// map lets its links end anywhere.
    pub max: usize,
}

/// Every allocation that a node may have, with its version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// Of which founding or restoring of the cluster.
    pub incarnation: Option<Incarnation>,
    /// At which index.
    pub index: u64,
    /// Allocations and their versions.
    pub allocs: Vec<(AllocId, u64)>,
}

/// One link of the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link<S, A> {
    /// Where the link before it, or the map, ended.
    pub previous_index: u64,
    /// Where it ends.
    pub index: u64,
    /// Specifications that the node was not told on this watch.
    pub specs: Vec<S>,
    /// Allocations that are wanted otherwise than before.
    pub changed: Vec<A>,
    /// Allocations that are not the node's any more.
    pub removed: Vec<AllocId>,
}

/// The links that an encoder makes.
pub type Links<E> = Vec<Link<<E as Encode>::Spec, <E as Encode>::Alloc>>;

/// What a node has been told, and how to tell it the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    node: NodeId,
    /// Told versions; 0 = in the map, but its content was never sent.
    told: BTreeMap<AllocId, u64>,
    specs: BTreeSet<SpecHash>,
    index: u64,
}

/// A link that is being filled.
struct Open<E: Encode> {
    specs: Vec<E::Spec>,
    changed: Vec<E::Alloc>,
    size: usize,
    newest: u64,
}

impl<E: Encode> Open<E> {
    fn new() -> Self {
        Self {
            specs: Vec::new(),
            changed: Vec::new(),
            size: 0,
            newest: 0,
        }
    }
}

impl Chain {
    /// Nothing told yet on this watch; `known` is what the node's complete report named.
    pub fn new(node: NodeId, known: &BTreeMap<AllocId, u64>) -> Self {
        Self {
            node,
            told: known.clone(),
            specs: BTreeSet::new(),
            index: 0,
        }
    }

    /// As [`Self::new`] for a session that goes on without a complete report: the node may keep any
    /// allocation that it ever had, so all are named and told. One that it does not have and that
    /// is over says nothing to it; one that is left out it would destroy, logs and all.
    pub fn after_resume(node: NodeId, snapshot: &Snapshot) -> Self {
        let told = snapshot.allocs_on_node(node).map(|alloc| (alloc.id, 0));
        Self {
            node,
            told: told.collect(),
            specs: BTreeSet::new(),
            index: 0,
        }
    }

    /// The complete map, with which a watch begins.
    pub fn map(&mut self, snapshot: &Snapshot) -> Map {
        let allocs: Vec<(AllocId, u64)> = snapshot
            .allocs_on_node(self.node)
            .filter(|alloc| self.concerns(alloc))
            .map(|alloc| (alloc.id, alloc.alloc_modify_index))
            .collect();
        let ids: BTreeSet<AllocId> = allocs.iter().map(|(id, _)| *id).collect();
        self.told.retain(|id, _| ids.contains(id));
        self.index = snapshot.index();
        Map {
            incarnation: snapshot.cluster().incarnation,
            index: self.index,
            allocs,
        }
    }

    fn concerns(&self, alloc: &Allocation) -> bool {
        !alloc.client_terminal() || self.told.contains_key(&alloc.id)
    }

    /// What changed since the last look, in links of bounded size. No change, no link.
    ///
    /// # Errors
    /// When something cannot be written, or too much changed at one index: the watch ends.
    pub fn links<E: Encode>(
        &mut self,
        snapshot: &Snapshot,
        encode: &mut E,
        sizes: LinkSizes,
    ) -> Result<Links<E>, String> {
        let (changed, removed) = self.news(snapshot);
        if changed.is_empty() && removed.is_empty() {
            return Ok(Vec::new());
        }
        for id in &removed {
            self.told.remove(id);
        }
        let mut links = Vec::new();
        let mut open = Open::<E>::new();
        for alloc in changed {
            // A link ends between two indexes, so that each has an index of its own, or where it
            // fills the map in: then all have the map's.
            let index = alloc.alloc_modify_index;
            let may_end = open.newest < index || index <= self.index;
            if open.size > sizes.max && !may_end {
                return Err(format!(
                    "more than {} bytes changed at index {index}: a new watch tells them in parts",
                    sizes.max
                ));
            }
            if open.size > sizes.wanted && may_end {
                let full = std::mem::replace(&mut open, Open::new());
                links.push(self.close(full.newest, full, Vec::new()));
            }
            open.newest = index;
            self.add(&mut open, &alloc, snapshot, encode)?;
        }
        links.push(self.close(snapshot.index(), open, removed));
        Ok(links)
    }

    /// What the node was not told in this version, by index, and what is not its own any more.
    fn news(&self, snapshot: &Snapshot) -> (Vec<Arc<Allocation>>, Vec<AllocId>) {
        let present: BTreeMap<AllocId, &Arc<Allocation>> = snapshot
            .allocs_on_node(self.node)
            .filter(|alloc| self.concerns(alloc))
            .map(|alloc| (alloc.id, alloc))
            .collect();
        let gone = self.told.keys().filter(|id| !present.contains_key(id));
        let removed = gone.copied().collect();
        let is_new = |alloc: &&&Arc<Allocation>| {
            let told = self.told.get(&alloc.id);
            told.is_none_or(|told| *told < alloc.alloc_modify_index)
        };
        let mut changed: Vec<Arc<Allocation>> = present
            .values()
            .filter(is_new)
            .map(|alloc| Arc::clone(alloc))
            .collect();
        changed.sort_by_key(|alloc| (alloc.alloc_modify_index, alloc.id));
        (changed, removed)
    }

    fn add<E: Encode>(
        &mut self,
        open: &mut Open<E>,
        alloc: &Arc<Allocation>,
        snapshot: &Snapshot,
        encode: &mut E,
    ) -> Result<(), String> {
        if self.specs.insert(alloc.spec) {
            let spec = snapshot
                .spec(alloc.spec)
                .ok_or_else(|| format!("specification {} is not in the state", alloc.spec))?;
            let (spec, size) = encode.spec(alloc.spec, spec)?;
            open.size += size;
            open.specs.push(spec);
        }
        // Why it was placed here does not concern the node.
        let told = Allocation {
            metrics: Arc::new(AllocMetric::default()),
            ..Allocation::clone(alloc)
        };
        let (told, size) = encode.alloc(told, snapshot.alloc_key(alloc.id))?;
        open.size += size;
        open.changed.push(told);
        self.told.insert(alloc.id, alloc.alloc_modify_index);
        Ok(())
    }

    fn close<E: Encode>(
        &mut self,
        index: u64,
        open: Open<E>,
        removed: Vec<AllocId>,
    ) -> Link<E::Spec, E::Alloc> {
        // The chain never goes back: what fills a map in was changed before it, and stays at its
        // index.
        let index = index.max(self.index);
        let previous_index = std::mem::replace(&mut self.index, index);
        Link {
            previous_index,
            index,
            specs: open.specs,
            changed: open.changed,
            removed,
        }
    }
}
