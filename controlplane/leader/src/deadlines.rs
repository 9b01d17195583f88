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
///
/// Every heartbeat moves its node's deadline to a later time, and nearly all of them stay ahead of
/// the clock for ever. A node is listed anew only when it comes to be the first of the list.
#[derive(Debug, Default)]
pub(crate) struct NodeDeadlines {
    nodes: BTreeMap<NodeId, Entry>,
    /// When each node was due as it was listed: never later than it is due now, and for the first
    /// of all exactly then.
    order: BTreeSet<(Duration, NodeId)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    due: Due,
    /// Where it is in the order.
    listed: Duration,
}

impl NodeDeadlines {
    /// The deadline of a node.
    pub(crate) fn due(&self, node: NodeId) -> Option<Due> {
        self.nodes.get(&node).map(|entry| entry.due)
    }

    /// Sets the deadline of a node; the one before is gone.
    pub(crate) fn set(&mut self, node: NodeId, due: Due) {
        let listed = due.deadline;
        match self.nodes.get_mut(&node) {
            Some(entry) if entry.listed <= listed => {
                entry.due = due;
                if self.order.first().is_some_and(|(_, first)| *first == node) {
                    self.list_the_first();
                }
            }
            Some(entry) => {
                self.order.remove(&(entry.listed, node));
                *entry = Entry { due, listed };
                self.order.insert((listed, node));
            }
            None => {
                self.nodes.insert(node, Entry { due, listed });
                self.order.insert((listed, node));
            }
        }
    }

    /// A node has none any more.
    pub(crate) fn remove(&mut self, node: NodeId) {
        if let Some(old) = self.nodes.remove(&node) {
            self.order.remove(&(old.listed, node));
            self.list_the_first();
        }
    }

    /// Lists anew what is first and due later, until what is first is due then.
    fn list_the_first(&mut self) {
        while let Some((listed, node)) = self.order.first().copied() {
            let Some(entry) = self.nodes.get_mut(&node) else {
                return;
            };
            if entry.due.deadline == listed {
                return;
            }
            entry.listed = entry.due.deadline;
            self.order.remove(&(listed, node));
            self.order.insert((entry.listed, node));
        }
    }

    /// Takes the node whose deadline is the first, if it is over.
    pub(crate) fn take_overdue(&mut self, now: Duration) -> Option<(NodeId, SessionEpoch)> {
        let (_, node) = self.order.first().copied().filter(|(at, _)| *at <= now)?;
        let due = self.due(node);
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
        for Entry { due, listed } in self.nodes.values_mut() {
            due.deadline += by;
            *listed = due.deadline;
        }
        let moved = self.nodes.iter();
        self.order = moved.map(|(node, entry)| (entry.listed, *node)).collect();
    }

    /// Moves every deadline before `earliest` there.
    pub(crate) fn not_before(&mut self, earliest: Duration) {
        for entry in self.nodes.values_mut() {
            entry.due.deadline = entry.due.deadline.max(earliest);
        }
        self.list_the_first();
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
