//! How fast a system job follows a new version: on `max_parallel` nodes at a time, and on the next
//! ones no sooner than `stagger` later.
//!
//! A node takes a slot from the moment its allocation is replaced until `stagger` has passed and
//! the new one runs. So the pace holds whatever else makes the scheduler look at the job meanwhile,
//! and a version that does not start, or fails, goes no further than the slots.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{Allocation, ClientStatus, Job, NodeId, TaskGroup, UnixNanos};

use super::runs_version;

/// See the top of this file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    max_parallel: usize,
    stagger: Duration,
}

/// What the pace allows now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slots {
    /// How many may be replaced.
    pub(super) free: usize,
    /// When there may be more.
    pub(super) again_at: UnixNanos,
}

impl Pace {
    /// The pace of a group; none where all of it is replaced at once, as it is without an `update`
    /// block (Nomad).
    pub(super) fn of(group: &TaskGroup) -> Option<Self> {
        let update = group.update.as_ref()?;
        let paced = update.max_parallel() > 0 && !update.stagger().is_zero();
        paced.then(|| Self {
            max_parallel: usize::try_from(update.max_parallel()).unwrap_or(usize::MAX),
            stagger: update.stagger(),
        })
    }

    /// The slots of `job` at `now`. `ended`: nodes on which this version ended, and has nothing
    /// that stands.
    pub(super) fn slots(
        self,
        job: &Job,
        existing: &[Arc<Allocation>],
        ended: &BTreeSet<NodeId>,
        now: UnixNanos,
    ) -> Slots {
        let mut taken = ended.clone();
        let mut again_at = now.saturating_add(self.stagger);
        let successors = existing.iter().filter(|alloc| {
            runs_version(alloc, job)
                && alloc.previous_allocation.is_some()
                && !alloc.server_terminal()
        });
        for alloc in successors {
            let settled_at = alloc.create_time.saturating_add(self.stagger);
            if settled_at > now {
                again_at = again_at.min(settled_at);
            } else if alloc.client_status != ClientStatus::Pending {
                continue;
            }
            taken.insert(alloc.node_id);
        }
        Slots {
            free: self.max_parallel.saturating_sub(taken.len()),
            again_at,
        }
    }
}
