//! What a decision has changed so far on top of its snapshot and of what plans in flight will take:
//! room, and where the group's others are.
//!
//! What other plans stop holds its room until it has ended; what this plan stops gives its room to
//! this plan, in two ways. What leaves whatever happens gives it back at once. What leaves only for
//! a successor makes way when that one's turn comes, and takes its room again where none was found:
//! nobody else was given it meanwhile, so that the plan holds as it was made.

use std::collections::BTreeMap;

use controlplane_state::{NodeRow, Snapshot, Usage};
use protocol_model::{Allocation, NodeId};

use crate::concurrency::{Concurrency, Lane};
use crate::preempt::{Evicted, Victim};

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    used: BTreeMap<NodeId, Usage>,
    siblings: BTreeMap<NodeId, u32>,
    evicted: Evicted,
    lane: Lane,
}

impl Overlay {
    /// The decision has changed nothing yet.
    pub(crate) fn new(snapshot: &Snapshot, concurrency: &Concurrency) -> Self {
        let mut overlay = Self {
            lane: concurrency.lane,
            ..Self::default()
        };
        for (node, usage) in &concurrency.planned {
            if let Some(row) = snapshot.node_columns().row(*node) {
                overlay.entry(row).add(usage);
            }
        }
        overlay
    }

    /// Whether `node` is in this decision's lane.
    pub(super) fn is_own(&self, node: NodeId) -> bool {
        self.lane.has(node)
    }

    /// Room on `row`'s node as this decision leaves it.
    pub(super) fn used<'a>(&'a self, row: &'a NodeRow) -> &'a Usage {
        self.used.get(&row.node).unwrap_or(&row.used)
    }

    /// How many of the group stand on `node`.
    pub(super) fn siblings(&self, node: NodeId) -> u32 {
        self.siblings.get(&node).copied().unwrap_or(0)
    }

    /// A new group begins: `standing` are where its allocations stand.
    pub(crate) fn begin_group(&mut self, standing: impl Iterator<Item = NodeId>) {
        self.siblings.clear();
        for node in standing {
            *self.siblings.entry(node).or_default() += 1;
        }
    }

    /// `alloc`, which holds room, leaves whatever happens: that is free for this plan.
    pub(crate) fn free(&mut self, snapshot: &Snapshot, alloc: &Allocation) {
        if let Some(row) = snapshot.node_columns().row(alloc.node_id) {
            self.entry(row)
                .subtract(&Usage::of(&alloc.allocated_resources));
        }
    }

    /// `alloc` of the group that is being placed leaves if its successor finds a node.
    pub(super) fn make_way(&mut self, snapshot: &Snapshot, alloc: &Allocation) {
        self.free(snapshot, alloc);
        if let Some(count) = self.siblings.get_mut(&alloc.node_id) {
            *count = count.saturating_sub(1);
        }
    }

    /// What made way stays after all.
    pub(super) fn stay(&mut self, snapshot: &Snapshot, alloc: &Allocation) {
        if let Some(row) = snapshot.node_columns().row(alloc.node_id) {
            self.entry(row).add(&Usage::of(&alloc.allocated_resources));
        }
        *self.siblings.entry(alloc.node_id).or_default() += 1;
    }

    /// One more of the group is on `row`'s node.
    pub(super) fn take(&mut self, row: &NodeRow, usage: &Usage) {
        self.entry(row).add(usage);
        *self.siblings.entry(row.node).or_default() += 1;
    }

    /// The allocations that this decision has evicted so far.
    pub(super) fn evicted(&self) -> &Evicted {
        &self.evicted
    }

    /// `victim` is evicted: its room is free for this plan. Whether nodes other than its own have
    /// to be judged again.
    pub(super) fn evict(&mut self, snapshot: &Snapshot, victim: &Victim) -> bool {
        self.free(snapshot, &victim.alloc);
        self.evicted.note(snapshot, victim)
    }

    fn entry(&mut self, row: &NodeRow) -> &mut Usage {
        self.used
            .entry(row.node)
            .or_insert_with(|| row.used.clone())
    }
}
