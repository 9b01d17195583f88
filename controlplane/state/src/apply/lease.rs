//! Until when something of a group that stops itself (`stop_on_client_after`) may run although
//! nobody hears its node. Nobody takes its place before.
//!
//! ```text
//!   its node is there --------> extended with each heartbeat
//!   its node is silent -------> counts from when it fell silent: its node's record says when
//!   its node is not known ----> counts from the purge: its own record says when
//! ```

use std::sync::Arc;
use std::time::Duration;

use protocol_model::{
    AllocState, Allocation, ClientStatus, NodeId, NodeStatus, TaskGroup, UnixNanos,
};

use super::draft::{AllocTouch, Draft};
use super::plan::bound_states;
use crate::record::NodeRecord;
use crate::tables::Tables;

/// How long the leader may go on to confirm heartbeats of a node that is being purged, until it has
/// heard of that itself. One that fell silent was not heard for about as long when it is noticed.
const PURGE_HEARD_WITHIN: Duration = Duration::from_secs(3);

/// Until when an allocation may run, as far as anybody can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseEnd {
    /// Its group does not stop itself.
    NoLease,
    /// Its node is there, and extends the lease.
    Extended,
    /// Until then, though nobody hears of it.
    At(UnixNanos),
}

impl NodeRecord {
    /// Since when nobody hears the node; nothing where it is there.
    pub fn silent_since(&self) -> Option<UnixNanos> {
        match self.node.status {
            NodeStatus::Ready | NodeStatus::Initializing => None,
            NodeStatus::Disconnected | NodeStatus::Down => {
                // In whole seconds, rounded down: the next one is not too early.
                let updated_at = self.node.status_updated_at.saturating_add(1);
                let updated_at = UnixNanos(updated_at.saturating_mul(1_000_000_000));
                Some(self.fell_silent_at.unwrap_or(updated_at))
            }
        }
    }
}

impl Tables {
    /// Until when an allocation may run that nobody said the end of. By the version that it runs:
    /// its node may have heard of an older one last, but of none with a longer lease.
    pub fn lease_end(&self, alloc: &Allocation) -> LeaseEnd {
        let group = self.group_of_alloc(alloc);
        let Some(over_after) = group.and_then(TaskGroup::lease_over_after) else {
            return LeaseEnd::NoLease;
        };
        let since = match self.node(alloc.node_id) {
            Some(record) => match record.silent_since() {
                Some(since) => since,
                None => return LeaseEnd::Extended,
            },
            // Where its record says nothing, an older release purged the node, and gave it up.
            None => unknown_since(alloc).map_or(UnixNanos::ZERO, |since| {
                since.saturating_add(PURGE_HEARD_WITHIN)
            }),
        };
        LeaseEnd::At(since.saturating_add(over_after))
    }

    /// Whether an allocation that stops itself may run still: nobody takes its place before, and
    /// its record is what tells.
    pub fn is_on_lease(&self, alloc: &Allocation) -> bool {
        match self.lease_end(alloc) {
            LeaseEnd::NoLease => false,
            LeaseEnd::Extended => true,
            LeaseEnd::At(end) => end > self.now(),
        }
    }
}

/// When the control plane last lost sight of an allocation.
pub(super) fn unknown_since(alloc: &Allocation) -> Option<UnixNanos> {
    let mut states = alloc.alloc_states.iter().rev();
    states
        .find(|state| state.value == ClientStatus::Unknown)
        .map(|state| state.time)
}

impl Draft {
    /// A node that nobody knows any more keeps no record of since when it is not heard: what stops
    /// itself there, and may run until then, takes that over into its own.
    pub(super) fn leave_on_lease(&mut self, node: NodeId, since: UnixNanos) {
        let leased = |alloc: &&Arc<Allocation>| {
            let group = self.tables.group_of_alloc(alloc);
            group.is_some_and(|group| group.lease_term().is_some())
        };
        let known = |alloc: &Allocation| {
            alloc.client_status == ClientStatus::Unknown && unknown_since(alloc) >= Some(since)
        };
        let left = self.tables.allocs_on_node(node).filter(leased);
        let left: Vec<Arc<Allocation>> = left
            .filter(|alloc| !alloc.client_terminal() && !known(alloc))
            .cloned()
            .collect();
        for alloc in left {
            let mut alloc = Allocation::clone(&alloc);
            alloc.client_status = ClientStatus::Unknown;
            alloc.alloc_states.push(AllocState {
                value: ClientStatus::Unknown,
                time: since,
            });
            bound_states(&mut alloc.alloc_states);
            self.put_alloc(alloc, AllocTouch::Known);
        }
    }
}
