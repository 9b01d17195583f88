//! Volatile detail: task events. Never in the log; kept in the memory of the server that holds the
//! node's session, merged into what the API answers.
//!
//! What is newer is told by the session, the connection and the report's revision: an urgent batch
//! overtakes a typical one, and a node that came back says again what it had said here before.

mod kept;

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::SessionEpoch;
use parking_lot::Mutex;
use protocol_model::{AllocId, Allocation, NodeId, TASK_EVENTS_MAX, TaskEvent, TaskState};
use protocol_wire::report::AllocReport;
use tokio::time::Instant;

use self::kept::Kept;

/// Allocations whose events are kept, of all nodes together; beyond that new ones are not kept
/// until a session ends, or the state forgets some.
const ALLOCS_MAX: usize = 200_000;

/// The newest events of allocations whose nodes are in a session here.
#[derive(Debug, Default)]
pub struct DetailCache {
    inner: Mutex<Kept>,
}

/// One allocation's detail.
#[derive(Clone, Debug)]
pub struct Detail {
    node: NodeId,
    /// In which session, and since when the connection was there over which it was told last.
    epoch: SessionEpoch,
    via: Instant,
    /// The report that the events came with: batches overtake each other.
    revision: u64,
    /// Events per task, oldest first.
    pub events: BTreeMap<String, Vec<Arc<TaskEvent>>>,
}

/// What one report says about events.
#[derive(Clone, Debug)]
pub struct AllocEvents {
    alloc: AllocId,
    revision: u64,
    /// Per task, oldest first; a task without events is not here.
    tasks: BTreeMap<String, Vec<Arc<TaskEvent>>>,
}

impl AllocEvents {
    /// Which allocation's.
    pub fn alloc(&self) -> AllocId {
        self.alloc
    }

    /// The same, of a complete report: whatever the session's batches say is newer.
    pub(super) fn of_sync(self) -> Self {
        Self {
            revision: 0,
            ..self
        }
    }
}

/// Who tells events, and over which connection.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Which node.
    pub node: NodeId,
    /// In which session.
    pub epoch: SessionEpoch,
    /// Since when the connection is there.
    pub via: Instant,
}

/// What reports say about events, one for each of them; the newest of each task.
pub fn events(reports: &[AllocReport]) -> Vec<AllocEvents> {
    let newest = |state: &TaskState| {
        let surplus = state.events.len().saturating_sub(TASK_EVENTS_MAX);
        state.events[surplus..].to_vec()
    };
    reports
        .iter()
        .map(|report| AllocEvents {
            alloc: report.id,
            revision: report.revision,
            tasks: report
                .task_states
                .iter()
                .filter(|(_, state)| !state.events.is_empty())
                .map(|(task, state)| (task.clone(), newest(state)))
                .collect(),
        })
        .collect()
}

impl DetailCache {
    /// Keeps events of allocations that are known to be the node's own, where nothing newer is
    /// kept: those of a later report, or told over a later connection.
    pub fn take_in(&self, told: Told, reported: impl IntoIterator<Item = AllocEvents>) {
        let mut inner = self.inner.lock();
        for events in reported {
            let is_newer = |kept: &Detail| {
                kept.epoch != told.epoch
                    || (kept.via <= told.via && kept.revision <= events.revision)
            };
            let revision = events.revision;
            if inner.get(events.alloc).is_none_or(is_newer) {
                inner.keep(told, events, revision, ALLOCS_MAX);
            }
        }
    }

    /// Keeps all that a node knows of events, told as it came here with a session that goes on.
    /// What came over this connection since is newer; what was told here before is not.
    pub fn take_in_whole(&self, told: Told, reported: impl IntoIterator<Item = AllocEvents>) {
        let mut inner = self.inner.lock();
        for events in reported {
            let kept = inner.get(events.alloc);
            let kept = kept.filter(|kept| kept.epoch == told.epoch);
            if kept.is_none_or(|kept| kept.via < told.via) {
                // It says nothing of revisions: a batch that is late still is.
                let revision = kept.map_or(0, |kept| kept.revision);
                inner.keep(told, events, revision, ALLOCS_MAX);
            }
        }
    }

    /// The newest report of an allocation, in that session, whose events were taken in here.
    pub(super) fn revision(&self, alloc: AllocId, epoch: SessionEpoch) -> Option<u64> {
        let inner = self.inner.lock();
        let kept = inner.get(alloc).filter(|kept| kept.epoch == epoch);
        kept.map(|kept| kept.revision)
    }

    /// Forgets a node's allocations: its session ended here.
    pub fn forget(&self, node: NodeId) {
        self.inner.lock().forget(node);
    }

    /// Forgets allocations of a node that the state does not know any more.
    pub fn forget_allocs(&self, node: NodeId, gone: impl IntoIterator<Item = AllocId>) {
        let mut gone = gone.into_iter().peekable();
        if gone.peek().is_none() {
            return;
        }
        let mut inner = self.inner.lock();
        for alloc in gone {
            // A node may name what is another one's.
            inner.forget_alloc(node, alloc);
        }
    }

    /// What is kept of one allocation.
    pub fn of(&self, alloc: AllocId) -> Option<Detail> {
        self.inner.lock().get(alloc).cloned()
    }
}

impl Detail {
    /// The node that told it.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Puts the events into an allocation that is about to be shown. Those of a terminal
    /// allocation's last word are in the state, and nothing here is newer.
    pub fn merge_into(&self, alloc: &mut Allocation) {
        let is_over = alloc.client_terminal();
        for (task, events) in &self.events {
            if let Some(state) = alloc.task_states.get_mut(task)
                && (!is_over || state.events.is_empty())
            {
                state.events.clone_from(events);
            }
        }
    }
}

#[cfg(test)]
mod tests;
