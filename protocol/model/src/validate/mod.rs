//! Validation: every mistake of a job at once, each with its place, so that a user mends a file in
//! one go.
//!
//! ```text
//! job ──► groups ──► tasks ──► templates, artifacts, services, resources...
//!   each step: findings.at("group \"web\"", |findings| ...)   keeps the place
//!              findings.refuse("...")                           adds a mistake there
//! ```
//!
//! The rules are Nomad's, unless a comment says why there is another.

mod findings;
mod group;
mod job;
mod network;
pub(crate) mod periodic;
mod placement;
mod policy;
mod service;
mod task;
mod task_files;
mod volume;

pub use findings::{PATTERNS_MAX, VALIDATION_ERRORS_MAX, ValidationError, ValidationErrors};

use crate::job::Job;
use findings::Findings;

/// The most groups a job may have: bounds the work of one evaluation.
pub const GROUPS_MAX: usize = 1_000;
/// The most tasks a group may have: each is at least one process on the same node.
pub const TASKS_PER_GROUP_MAX: usize = 250;
/// The largest count of one group (Nomad's `job_max_count`).
pub const COUNT_MAX: u32 = 50_000;
/// The longest name of a job, group, task, volume, port or action, in bytes.
pub const NAME_LEN_MAX: usize = 128;
/// The longest id of a job that was launched from another: the parent's and what was added.
pub const CHILD_ID_LEN_MAX: usize = 192;
/// The longest description that a user interface shows beside a job, in bytes.
pub const UI_DESCRIPTION_LEN_MAX: usize = 1_000;

impl Job {
    /// Lists every mistake of a canonical job.
    ///
    /// Whether the namespace, the node pool or a driver exists is not asked here: that is for
    /// whoever knows the cluster.
    pub fn validate(&self) -> Result<(), ValidationErrors> {
        let mut findings = Findings::default();
        job::check(self, &mut findings);
        findings.into_result()
    }
}
