//! Launches of periodic jobs.

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};

use super::ChildJob;

/// The most launches of one entry: bounds the hashes that the proposer computes at a time, and the
/// entry.
pub const LAUNCHES_MAX: usize = 32;

/// See [`Command::PeriodicLaunch`](super::Command::PeriodicLaunch).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PeriodicLaunch {
    /// At most [`LAUNCHES_MAX`]; each is judged alone.
    pub launches: Vec<Launch>,
}

/// One launch of a periodic job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The child and its evaluation.
    pub child: ChildJob,
    /// The launch time, in whole seconds; the child's id ends with it.
    pub at: UnixNanos,
    /// The schedule, or a caller.
    pub cause: LaunchCause,
}

/// The cause of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LaunchCause {
    /// The job's schedule. It happens once, and not beside a child that is not over where the job
    /// prohibits that.
    Schedule,
    /// A caller, at once and whatever the schedule says. The schedule is not changed by it.
    Forced,
}
