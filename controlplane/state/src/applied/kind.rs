//! What a job stays for as long as it is known: its type, and whether it is a template.
//!
//! Each type has a scheduler of its own, and a template has none: allocations of a job that became
//! something else would be nobody's, and run on for ever.

use protocol_model::{Job, JobType};
use serde::{Deserialize, Serialize};

/// What of its kind a job would lose by a registration. Nomad refuses the same, with words that
/// begin so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum KindChange {
    /// Another scheduler would have to know of the allocations.
    #[error("cannot update job from type {:?} to {:?}", .from.as_str(), .to.as_str())]
    Type {
        /// The registered job's.
        from: JobType,
        /// The new one's.
        to: JobType,
    },
    /// It runs at once, and would be launched by the clock.
    #[error("cannot update non-periodic job to being periodic")]
    ToPeriodic,
    /// It is launched by the clock, and would run at once.
    #[error("cannot update periodic job to being non-periodic")]
    FromPeriodic,
    /// It runs at once, and would wait for dispatches.
    #[error("cannot update non-parameterized job to being parameterized")]
    ToParameterized,
    /// It waits for dispatches, and would run at once.
    #[error("cannot update parameterized job to being non-parameterized")]
    FromParameterized,
}

impl KindChange {
    /// What of `old`'s kind is another one's in `new`; `None` where `new` may take its place. It
    /// does not matter whether `old` is stopped: its allocations may still be ending.
    pub fn between(old: &Job, new: &Job) -> Option<Self> {
        if old.job_type != new.job_type {
            return Some(Self::Type {
                from: old.job_type,
                to: new.job_type,
            });
        }
        match (old.is_periodic(), new.is_periodic()) {
            (false, true) => return Some(Self::ToPeriodic),
            (true, false) => return Some(Self::FromPeriodic),
            (true, true) | (false, false) => {}
        }
        match (old.is_parameterized(), new.is_parameterized()) {
            (false, true) => Some(Self::ToParameterized),
            (true, false) => Some(Self::FromParameterized),
            (true, true) | (false, false) => None,
        }
    }
}
