//! The highest run epoch of every task that was ever asked for: what keeps a late request from
//! starting the same run again.

use crate::protocol::{AllocAndTask, TaskKey};
use std::collections::BTreeMap;

/// Tasks whose highest run epoch is remembered; beyond it the one that changed longest ago is
/// forgotten.
pub(crate) const FLOORS_MAX: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Floor {
    run_epoch: u64,
    changed: u64,
}

#[derive(Debug, Default)]
pub(super) struct Floors {
    floors: BTreeMap<AllocAndTask, Floor>,
    /// The same floors by the time of their last change.
    by_change: BTreeMap<u64, AllocAndTask>,
    changes: u64,
}

impl Floors {
    pub(super) fn highest(&self, owner: &AllocAndTask) -> Option<u64> {
        self.floors.get(owner).map(|floor| floor.run_epoch)
    }

    /// Never lowers; answers with the floors that are none any more.
    pub(super) fn raise(&mut self, key: &TaskKey) -> Vec<TaskKey> {
        let owner = key.owner();
        let mut run_epoch = key.run_epoch();
        let mut gone = Vec::new();
        if let Some(earlier) = self.highest(owner) {
            let earlier_key = self.remove(owner);
            if run_epoch > earlier {
                gone.extend(earlier_key);
            }
            run_epoch = run_epoch.max(earlier);
        }
        self.changes += 1;
        let changed = self.changes;
        self.floors
            .insert(owner.clone(), Floor { run_epoch, changed });
        self.by_change.insert(changed, owner.clone());
        while self.floors.len() > FLOORS_MAX {
            let Some((_, oldest)) = self.by_change.pop_first() else {
                break;
            };
            gone.extend(self.remove(&oldest));
        }
        gone
    }

    pub(super) fn remove(&mut self, owner: &AllocAndTask) -> Option<TaskKey> {
        let floor = self.floors.remove(owner)?;
        self.by_change.remove(&floor.changed);
        TaskKey::new(owner.alloc(), owner.task(), floor.run_epoch).ok()
    }

    pub(super) fn of_alloc(&self, alloc: &str) -> impl Iterator<Item = &AllocAndTask> {
        self.floors
            .keys()
            .filter(move |owner| owner.alloc() == alloc)
    }

    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        self.floors.len() == self.by_change.len()
    }

    /// The one that changed longest ago first: raised again in this order they are the same.
    pub(super) fn in_order(&self) -> impl Iterator<Item = TaskKey> {
        self.by_change.values().filter_map(|owner| {
            let floor = self.floors.get(owner)?;
            TaskKey::new(owner.alloc(), owner.task(), floor.run_epoch).ok()
        })
    }
}
