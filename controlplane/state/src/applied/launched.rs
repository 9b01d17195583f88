//! Jobs that are launched from templates: the result of a launch, and the fields that only a launch
//! sets.

use protocol_model::{EvalId, Job, JobKey};
use serde::{Deserialize, Serialize};

use super::namespace::JobDenied;

/// A job that was launched from a template.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launched {
    /// The child.
    pub child: JobKey,
    /// The index at which the child was created: below that of the entry where an earlier launch
    /// is repeated.
    pub create_index: u64,
    /// The evaluation made with it; none for a repeated launch and for a child that is periodic.
    pub eval: Option<EvalId>,
}

/// A field of a job that launches set, and registrations neither set nor change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LaunchField {
    /// `Dispatched`.
    Dispatched,
    /// `ParentID`.
    ParentId,
    /// `Payload`.
    Payload,
    /// `DispatchIdempotencyToken`.
    IdempotencyToken,
}

impl LaunchField {
    /// The name that the API uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dispatched => "Dispatched",
            Self::ParentId => "ParentID",
            Self::Payload => "Payload",
            Self::IdempotencyToken => "DispatchIdempotencyToken",
        }
    }

    /// The first of them that `new` sets, where no job of its id is registered.
    pub fn set_in(new: &Job) -> Option<Self> {
        Self::changed(&Job::default(), new)
    }

    /// The first of them that differs between a registered job and the one to take its place.
    pub fn changed(old: &Job, new: &Job) -> Option<Self> {
        if old.dispatched != new.dispatched {
            Some(Self::Dispatched)
        } else if old.parent_id != new.parent_id {
            Some(Self::ParentId)
        } else if old.payload.as_deref().unwrap_or("") != new.payload.as_deref().unwrap_or("") {
            Some(Self::Payload)
        } else if old.dispatch_idempotency_token != new.dispatch_idempotency_token {
            Some(Self::IdempotencyToken)
        } else {
            None
        }
    }
}

/// The result of one launch of a periodic job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LaunchResult {
    /// The child was registered.
    Launched(Launched),
    /// The child was there: an earlier launch had the same second. Its evaluation, unless that was
    /// collected.
    Repeated(Launched),
    /// The launch record is at this time or after it.
    Earlier,
    /// The job prohibits overlap, and a child is not over. The launch is recorded.
    Overlaps,
    /// The parent is gone, stopped, disabled, or waits for dispatches.
    NotTracked,
    /// The parent is another version than the child was made from.
    ParentChanged,
    /// The namespace changed since the parent was registered and does not take the child. The
    /// launch is recorded where the schedule made it.
    Denied(JobDenied),
}
