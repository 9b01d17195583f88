//! Scaling of groups.

use protocol_model::{JobKey, ScalingEvent};
use serde::{Deserialize, Serialize};

use super::JobRegister;

/// See [`Command::JobScale`](super::Command::JobScale).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobScale {
    /// The job.
    pub key: JobKey,
    /// The group.
    pub group: String,
    /// The event to keep: time, index, evaluation and the count before are the state's to fill in.
    pub event: ScalingEvent,
    /// The job with the count of `event`, and its evaluation. It names the `JobModifyIndex` that it
    /// was made from. None for an event without a count.
    pub register: Option<JobRegister>,
}
