//! Why a group is not scaled. The texts are Nomad's.

use protocol_model::JobType;
use serde::{Deserialize, Serialize};

/// Why a group is not scaled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum ScaleRefusal {
    /// The job has no such group.
    #[error("task group {0:?} specified for scaling does not exist in job")]
    UnknownGroup(String),
    /// The count is below the minimum of the group's `scaling` block.
    #[error("group count was less than scaling policy minimum: {count} < {min}")]
    BelowMinimum {
        /// The count that was asked for.
        count: i64,
        /// The minimum.
        min: u32,
    },
    /// The count is above the maximum of the group's `scaling` block.
    #[error("group count was greater than scaling policy maximum: {count} > {max}")]
    AboveMaximum {
        /// The count that was asked for.
        count: i64,
        /// The maximum.
        max: u32,
    },
    /// A rollout of the job is under way.
    #[error("job scaling blocked due to active deployment")]
    ActiveDeployment,
    /// The job runs on every node, or on none.
    #[error("jobs of type {:?} can only be scaled between 0 and 1", .0.as_str())]
    PerNode(JobType),
}
