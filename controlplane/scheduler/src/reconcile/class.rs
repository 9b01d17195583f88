//! What an allocation of a service or batch job is, before the group's count is looked at.

use controlplane_state::Snapshot;
use protocol_model::{Allocation, ClientStatus, Job, JobType, TaskGroup, UnixNanos};

use super::condition::{Condition, condition, successor_lives};
use super::runs_version;
use crate::reschedule::{self, Retry};

/// What one allocation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// It does not matter any more.
    Over,
    /// A batch allocation that ran to a good end: it counts, and is never replaced.
    Done,
    /// Its node is gone, or was silent for too long.
    Lost {
        /// Whether nobody took its place yet.
        replace: bool,
    },
    /// Its node just fell silent, and it may return.
    Disconnecting {
        /// Whether somebody takes its place meanwhile.
        replace: bool,
    },
    /// Its node is silent still.
    Unknown {
        /// Whether it counts although it is silent.
        counts: bool,
        /// Whether somebody is to take its place, and nobody has.
        replace: bool,
        /// When it is given up, if it ever is.
        until: Option<UnixNanos>,
    },
    /// Its node is back.
    Reconnecting,
    /// It has to leave its node.
    Leaving,
    /// It failed.
    Failed(Retry),
    /// It stands.
    Standing,
}

/// What `alloc` is at `now`.
pub(super) fn classify(
    snapshot: &Snapshot,
    job: &Job,
    group: &TaskGroup,
    alloc: &Allocation,
    now: UnixNanos,
) -> Class {
    let batch = job.job_type == JobType::Batch;
    if alloc.server_terminal() {
        return Class::Over;
    }
    // What ended in another version, or in another job of this name, says nothing about this one: a
    // result is made again, and a failure neither counts nor has to wait.
    if alloc.client_terminal() && !runs_version(alloc, job) {
        return Class::Over;
    }
    if batch && alloc.ran_successfully() && alloc.client_terminal() {
        return Class::Done;
    }
    if alloc.client_status == ClientStatus::Failed {
        if alloc.next_allocation.is_some() {
            return Class::Over;
        }
        let policy = group.reschedule_policy.clone().unwrap_or_default();
        return Class::Failed(reschedule::retry(alloc, &policy, now));
    }
    if alloc.client_terminal() {
        return Class::Over;
    }
    on_node(snapshot, group, alloc, now)
}

/// What the condition of its node makes of an allocation that neither side is done with.
fn on_node(snapshot: &Snapshot, group: &TaskGroup, alloc: &Allocation, now: UnixNanos) -> Class {
    let replace = group.replaces_on_disconnect() && group.lease_wait().is_none();
    match condition(snapshot, group, alloc, now) {
        Condition::Lost => Class::Lost {
            replace: !successor_lives(snapshot, alloc),
        },
        Condition::Disconnecting => Class::Disconnecting { replace },
        Condition::Unknown { until } => {
            let alone = !successor_lives(snapshot, alloc);
            Class::Unknown {
                counts: !replace && alone,
                replace: replace && alone,
                until,
            }
        }
        Condition::Migrating | Condition::Draining => Class::Leaving,
        Condition::Reconnecting => Class::Reconnecting,
        Condition::Standing => Class::Standing,
    }
}
