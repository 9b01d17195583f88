//! What an allocation of a service or batch job is, before the group's count is looked at.

use controlplane_state::Snapshot;
use protocol_model::{Allocation, ClientStatus, Job, JobType, TaskGroup, UnixNanos};

use super::condition::{Condition, Silence, condition};
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
    Lost,
    /// Its node just fell silent, and it may return.
    Disconnecting(Silence),
    /// Its node is silent still.
    Unknown {
        silence: Silence,
        /// When it is given up, if it ever is.
        until: Option<UnixNanos>,
    },
    /// Its node is back.
    Reconnecting,
    /// It has to leave its node, once its successor has one.
    Leaving,
    /// It has to leave its node now: the drain's deadline is over.
    ForcedOut,
    /// The drain of its node ends it.
    Retired {
        /// It counts as done for the version that is wanted.
        counts: bool,
    },
    /// It ended, and is wanted still: it failed, or completed without being asked to.
    Ended(Retry),
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
    if batch && alloc.desired_transition.ends_here() {
        match (alloc.terminal(), runs_version(alloc, job)) {
            (true, true) => return Class::Done,
            (true, false) => return Class::Over,
            (false, counts) => return Class::Retired { counts },
        }
    }
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
    match alloc.client_status {
        ClientStatus::Failed | ClientStatus::Complete if alloc.next_allocation.is_none() => {
            Class::Ended(reschedule::retry(group, alloc, now))
        }
        ClientStatus::Failed | ClientStatus::Complete | ClientStatus::Lost => Class::Over,
        ClientStatus::Pending | ClientStatus::Running | ClientStatus::Unknown => {
            on_node(snapshot, group, alloc, now)
        }
    }
}

/// What the condition of its node makes of an allocation that neither side is done with.
fn on_node(snapshot: &Snapshot, group: &TaskGroup, alloc: &Allocation, now: UnixNanos) -> Class {
    match condition(snapshot, group, alloc, now) {
        Condition::Lost => Class::Lost,
        Condition::Disconnecting(silence) => Class::Disconnecting(silence),
        Condition::Unknown { silence, until } => Class::Unknown { silence, until },
        Condition::Migrating if alloc.desired_transition.should_force_stop() => Class::ForcedOut,
        Condition::Migrating => Class::Leaving,
        Condition::Reconnecting => Class::Reconnecting,
        Condition::Standing => Class::Standing,
    }
}
