//! Launch times of periodic jobs.

use serde::{Deserialize, Serialize};

use crate::instant::UnixNanos;
use crate::job::{Job, JobStatus};
use crate::nullable;
use crate::nullable::or_default;

/// When a periodic job is launched.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PeriodicConfig {
    /// Whether launches happen; absent becomes true.
    pub enabled: Option<bool>,
    /// One cron expression.
    #[serde(deserialize_with = "or_default")]
    pub spec: String,
    /// Several cron expressions; excludes `spec`.
    #[serde(with = "nullable")]
    pub specs: Vec<String>,
    /// The language of the expressions; `""` becomes `cron`.
    #[serde(deserialize_with = "or_default")]
    pub spec_type: String,
    /// Whether a launch is skipped while an earlier one still runs.
    #[serde(deserialize_with = "or_default")]
    pub prohibit_overlap: bool,
    /// The IANA name of the time zone; `""` becomes `UTC`.
    #[serde(deserialize_with = "or_default")]
    pub time_zone: String,
}

/// Between a periodic job's id and the Unix second of a launch, in the id of the launched job.
pub const PERIODIC_LAUNCH_INFIX: &str = "/periodic-";

impl Job {
    /// Whether its launch times are followed: it is periodic, enabled, not stopped, and does not
    /// wait for a dispatch.
    pub fn launches_by_time(&self) -> bool {
        let enabled = self
            .periodic
            .as_ref()
            .is_some_and(PeriodicConfig::is_enabled);
        enabled && !self.stop && !self.is_parameterized()
    }

    /// The job that a launch at `at` registers, whose id ends with the whole Unix second.
    #[must_use]
    pub fn periodic_child(&self, at: UnixNanos) -> Self {
        let second = at.0.div_euclid(1_000_000_000);
        let mut child = self.clone();
        child.id = format!("{}{PERIODIC_LAUNCH_INFIX}{second}", self.id);
        child.name.clone_from(&child.id);
        child.parent_id.clone_from(&self.id);
        child.periodic = None;
        child.stop = false;
        child.stable = false;
        child.status = JobStatus::default();
        child.status_description.clear();
        child.version = 0;
        child.version_tag = None;
        child.submit_time = UnixNanos::ZERO;
        child.create_index = 0;
        child.modify_index = 0;
        child.job_modify_index = 0;
        child
    }
}
