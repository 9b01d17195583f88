//! One deadline for each node: found, moved and taken in logarithmic time, however many there are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controlplane_state::{NodeRecord, SessionEpoch, Snapshot};
use protocol_model::{NodeId, NodeStatus};

/// What was answered is answered again after this, until the state shows that it was done: the log
/// may not have taken it. So is a node looked at again where something is about to be said of it.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What is due for one session of a node, and when, by the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub(crate) epoch: SessionEpoch,
    pub(crate) deadline: Duration,
}

/// See the top of this file. It holds at most one deadline for each registered node.
#[derive(Debug, Default)]
pub(crate) struct NodeDeadlines {
    nodes: BTreeMap<NodeId, Due>,
    order: BTreeSet<(Duration, NodeId)>,
}

impl NodeDeadlines {
    /// The deadline of a node.
    pub(crate) fn due(&self, node: NodeId) -> Option<Due> {
        self.nodes.get(&node).copied()
    }

    /// Sets the deadline of a node; the one before is gone.
    pub(crate) fn set(&mut self, node: NodeId, due: Due) {
        if let Some(old) = self.nodes.insert(node, due) {
            self.order.remove(&(old.deadline, node));
        }
        self.order.insert((due.deadline, node));
    }

    /// A node has none any more.
    pub(crate) fn remove(&mut self, node: NodeId) {
        if let Some(old) = self.nodes.remove(&node) {
            self.order.remove(&(old.deadline, node));
        }
    }

    /// Takes the node whose deadline is the first, if it is over.
    pub(crate) fn take_overdue(&mut self, now: Duration) -> Option<(NodeId, SessionEpoch)> {
        let (_, node) = self.order.first().copied().filter(|(at, _)| *at <= now)?;
        let due = self.nodes.get(&node).copied();
        self.remove(node);
        due.map(|due| (node, due.epoch))
    }

    /// Takes the first node whose deadline is over and that is still as it was when that was set:
    /// in the same session, and with this status. Deadlines of any other are forgotten.
    pub(crate) fn take_overdue_as<'s>(
        &mut self,
        status: NodeStatus,
        snapshot: &'s Snapshot,
        now: Duration,
    ) -> Option<(NodeId, SessionEpoch, &'s NodeRecord)> {
        loop {
            let (node, epoch) = self.take_overdue(now)?;
            let record = snapshot
                .node(node)
                .filter(|record| record.node.status == status && record.session.epoch == epoch);
            if let Some(record) = record {
                return Some((node, epoch, record.as_ref()));
            }
        }
    }

    /// Moves every deadline.
    pub(crate) fn postpone(&mut self, by: Duration) {
        for due in self.nodes.values_mut() {
            due.deadline += by;
        }
        let moved = self.nodes.iter().map(|(node, due)| (due.deadline, *node));
        self.order = moved.collect();
    }

    /// Moves every deadline before `earliest` there.
    pub(crate) fn not_before(&mut self, earliest: Duration) {
        for (node, due) in &mut self.nodes {
            if due.deadline < earliest {
                self.order.remove(&(due.deadline, *node));
                due.deadline = earliest;
                self.order.insert((earliest, *node));
            }
        }
    }

    /// The first deadline.
    pub(crate) fn first(&self) -> Option<Duration> {
        self.order.first().map(|(at, _)| *at)
    }

    /// How many nodes have one.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
