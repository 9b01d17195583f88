//! Jobs that are launched from templates.

use std::sync::Arc;

use protocol_model::{Evaluation, Job, JobKey, SpecHash};
use serde::{Deserialize, Serialize};

/// A job that is launched from a parameterized or periodic one. The proposer builds it whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChildJob {
    /// The canonical child: its `parent_id` is set, and its id begins with that and `/`. Version,
    /// indexes and status are the state's to fill in.
    pub job: Arc<Job>,
    /// The hash of the child's specification.
    pub spec: SpecHash,
    /// The `JobModifyIndex` of the parent that it was made from. It names one version of one
    /// incarnation of the parent; `apply` refuses another one.
    pub parent_index: u64,
    /// The evaluation of the child; none for a child that is a periodic job itself.
    pub eval: Option<Evaluation>,
}

impl ChildJob {
    /// The key of the template that it is launched from.
    pub fn parent(&self) -> JobKey {
        JobKey::new(self.job.key().namespace, self.job.parent_id.clone())
    }
}
