//! Volatile detail: task events. Never in the log; kept in the memory of the server that holds the
//! node's session, merged into what the API answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol_model::{AllocId, Allocation, NodeId, TASK_EVENTS_MAX, TaskEvent, TaskState};
use protocol_wire::report::AllocReport;

/// Allocations whose events are kept, of all nodes together; beyond that new ones are not kept
/// until a session ends, or the state forgets some.
const ALLOCS_MAX: usize = 200_000;

/// The newest events of allocations whose nodes are in a session here.
#[derive(Debug, Default)]
pub struct DetailCache {
    inner: Mutex<BTreeMap<AllocId, Detail>>,
}

/// One allocation's detail.
#[derive(Clone, Debug)]
pub struct Detail {
    node: NodeId,
    /// Events per task, oldest first.
    pub events: BTreeMap<String, Vec<Arc<TaskEvent>>>,
}

/// What one report says about events.
#[derive(Clone, Debug)]
pub struct AllocEvents {
    alloc: AllocId,
    /// Per task, oldest first; a task without events is not here.
    tasks: BTreeMap<String, Vec<Arc<TaskEvent>>>,
}

impl AllocEvents {
    /// Which allocation's.
    pub fn alloc(&self) -> AllocId {
        self.alloc
    }
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
    /// Keeps events of allocations that are known to be the node's own; they replace those kept
    /// before.
    pub fn take_in(&self, node: NodeId, reported: impl IntoIterator<Item = AllocEvents>) {
        let mut inner = self.lock();
        for AllocEvents { alloc, tasks } in reported {
            if !inner.contains_key(&alloc) && inner.len() >= ALLOCS_MAX {
                continue;
            }
            let detail = inner.entry(alloc).or_insert_with(|| Detail {
                node,
                events: BTreeMap::new(),
            });
            detail.node = node;
            detail.events.extend(tasks);
        }
    }

    /// Keeps events that were told to another server before: what is known here is newer.
    pub fn take_in_older(&self, node: NodeId, reported: impl IntoIterator<Item = AllocEvents>) {
        let unknown: Vec<AllocEvents> = {
            let inner = self.lock();
            let reported = reported.into_iter();
            reported
                .filter(|events| !inner.contains_key(&events.alloc))
                .collect()
        };
        // Not while it is locked: taking in locks it again.
        self.take_in(node, unknown);
    }

    /// Forgets a node's allocations: its session ended here.
    pub fn forget(&self, node: NodeId) {
        self.lock().retain(|_, detail| detail.node != node);
    }

    /// Forgets allocations of a node that the state does not know any more.
    pub fn forget_allocs(&self, node: NodeId, gone: impl IntoIterator<Item = AllocId>) {
        let mut gone = gone.into_iter().peekable();
        if gone.peek().is_none() {
            return;
        }
        let mut inner = self.lock();
        for alloc in gone {
            // A node may name what is another one's.
            if inner.get(&alloc).is_some_and(|detail| detail.node == node) {
                inner.remove(&alloc);
            }
        }
    }

    /// What is kept of one allocation.
    pub fn of(&self, alloc: AllocId) -> Option<Detail> {
        self.lock().get(&alloc).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AllocId, Detail>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Detail {
    /// Puts the events into an allocation that is about to be shown. Durable ones (a terminal
    /// allocation's last word) stay where nothing newer is known.
    pub fn merge_into(&self, alloc: &mut Allocation) {
        for (task, events) in &self.events {
            if let Some(state) = alloc.task_states.get_mut(task) {
                state.events.clone_from(events);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_to_another_server_before_is_kept_where_nothing_newer_is_known() {
        let cache = DetailCache::default();
        let node = NodeId::from_u128(1);
        let events = |alloc, task: &str| AllocEvents {
            alloc: AllocId::from_u128(alloc),
            tasks: BTreeMap::from([(task.to_owned(), Vec::new())]),
        };
        cache.take_in(node, [events(1, "newer")]);
        cache.take_in_older(node, [events(1, "older"), events(2, "older")]);
        let tasks = |alloc| -> Vec<String> {
            let detail = cache.of(AllocId::from_u128(alloc)).expect("it is kept");
            detail.events.into_keys().collect()
        };
        assert_eq!(tasks(1), ["newer"]);
        assert_eq!(tasks(2), ["older"]);
    }
    #[test]
    fn a_node_has_only_its_own_allocations_forgotten() {
        let cache = DetailCache::default();
        let events = |alloc| AllocEvents {
            alloc: AllocId::from_u128(alloc),
            tasks: BTreeMap::new(),
        };
        let [one, other] = [1, 2].map(NodeId::from_u128);
        cache.take_in(one, [events(1), events(2)]);
        cache.take_in(other, [events(3)]);
        cache.forget_allocs(one, [1, 3, 4].map(AllocId::from_u128));
        let kept = [1, 2, 3].map(|alloc| cache.of(AllocId::from_u128(alloc)).is_some());
        assert_eq!(kept, [false, true, true]);
    }
}
