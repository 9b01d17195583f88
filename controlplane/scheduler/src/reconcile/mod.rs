//! Reconciliation: what exists against what is wanted. Every existing allocation lands in exactly
//! one bucket; what is to be placed follows from the buckets.

mod difference;
mod group;
mod names;
mod system;

use std::collections::BTreeSet;
use std::sync::Arc;

use controlplane_state::{NodeRecord, Snapshot};
use protocol_model::{AllocId, Allocation, ClientStatus, NodeStatus, RescheduleTracker, UnixNanos};

pub(crate) use self::difference::{Difference, difference};
pub(crate) use self::group::group;
pub(crate) use self::system::system;

/// A placement that is wanted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Wanted {
    /// The allocation's name.
    pub(crate) name: String,
    /// The allocation that it takes the place of.
    pub(crate) previous: Option<Arc<Allocation>>,
    /// Earlier attempts at rescheduling.
    pub(crate) tracker: Option<RescheduleTracker>,
    /// The previous one failed on its node: anywhere else is better.
    pub(crate) penalized: bool,
    /// A system job's allocation belongs on this node.
    pub(crate) node: Option<protocol_model::NodeId>,
}

impl Wanted {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            previous: None,
            tracker: None,
            penalized: false,
            node: None,
        }
    }

    pub(crate) fn replacing(name: String, previous: &Arc<Allocation>) -> Self {
        Self {
            previous: Some(Arc::clone(previous)),
            ..Self::new(name)
        }
    }
}

/// What to do with one task group, bucket by bucket.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    /// Placements to make.
    pub(crate) place: Vec<Wanted>,
    /// Stop; the reason is for people.
    pub(crate) stop: Vec<(Arc<Allocation>, &'static str)>,
    /// Their node is gone: they are lost.
    pub(crate) lost: Vec<Arc<Allocation>>,
    /// Their node is silent and they may return: unknown.
    pub(crate) disconnect: Vec<Arc<Allocation>>,
    /// Their node is back, and they stay.
    pub(crate) reconnect: Vec<Arc<Allocation>>,
    /// Another job version, without a restart.
    pub(crate) in_place: Vec<Arc<Allocation>>,
    /// Another job version, by stop and placement. The placement is among `place`.
    pub(crate) destructive: Vec<Arc<Allocation>>,
    /// Another job version, later: the rollout's limit is reached.
    pub(crate) later: Vec<Arc<Allocation>>,
    /// Leave their node. The placement is among `place`.
    pub(crate) migrate: Vec<Arc<Allocation>>,
    /// Failed, and tried elsewhere now. The placement is among `place`.
    pub(crate) reschedule: Vec<Arc<Allocation>>,
    /// Failed, and tried elsewhere at that time.
    pub(crate) reschedule_at: Vec<(Arc<Allocation>, UnixNanos)>,
    /// Silent, and given up at that time, at which nobody is due yet to look at them.
    pub(crate) give_up_at: Vec<(Arc<Allocation>, UnixNanos)>,
    /// Stay as they are, and count.
    pub(crate) keep: Vec<Arc<Allocation>>,
    /// Are over and do not count.
    pub(crate) ignore: Vec<Arc<Allocation>>,
}

impl Buckets {
    /// Allocations whose room is free once the decision is applied.
    pub(crate) fn leaving(&self) -> BTreeSet<AllocId> {
        self.stop
            .iter()
            .map(|(alloc, _)| alloc)
            .chain(&self.lost)
            .chain(&self.destructive)
            .chain(&self.migrate)
            .chain(&self.reschedule)
            .map(|alloc| alloc.id)
            .collect()
    }

    /// Whether nothing is to be done, now or later.
    pub(crate) fn is_quiet(&self) -> bool {
        self.place.is_empty()
            && self.in_place.is_empty()
            && self.destructive.is_empty()
            && self.later.is_empty()
            && self.migrate.is_empty()
            && self.reschedule_at.is_empty()
    }

    /// How many allocations the buckets hold: each exactly once.
    pub(crate) fn len(&self) -> usize {
        self.stop.len()
            + self.lost.len()
            + self.disconnect.len()
            + self.reconnect.len()
            + self.in_place.len()
            + self.destructive.len()
            + self.later.len()
            + self.migrate.len()
            + self.reschedule.len()
            + self.reschedule_at.len()
            + self.give_up_at.len()
            + self.keep.len()
            + self.ignore.len()
    }
}

/// What a node's condition means for the allocations on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taint {
    /// Nothing: it is there, even if it owes its report.
    None,
    /// They should leave.
    Draining,
    /// It is silent and may return.
    Disconnected,
    /// It is silent for good, or forgotten.
    Gone,
}

impl Taint {
    pub(crate) fn of(node: Option<&Arc<NodeRecord>>) -> Self {
        let Some(node) = node.map(|record| &record.node) else {
            return Self::Gone;
        };
        match node.status {
            NodeStatus::Down => Self::Gone,
            NodeStatus::Disconnected => Self::Disconnected,
            NodeStatus::Ready | NodeStatus::Initializing if node.drain => Self::Draining,
            NodeStatus::Ready | NodeStatus::Initializing => Self::None,
        }
    }

    pub(crate) fn on(snapshot: &Snapshot, alloc: &Allocation) -> Self {
        Self::of(snapshot.node(alloc.node_id))
    }
}

/// When a disconnected allocation's window is over; `None` where it has none or never fell silent.
pub(crate) fn window_end(
    alloc: &Allocation,
    window: Option<std::time::Duration>,
) -> Option<UnixNanos> {
    let since = alloc
        .alloc_states
        .iter()
        .rev()
        .find(|state| state.value == ClientStatus::Unknown)
        .map(|state| state.time);
    Some(since?.saturating_add(window?))
}
