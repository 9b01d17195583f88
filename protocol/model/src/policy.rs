//! Policies of a group's life: restart, reschedule, update, migrate, disconnect.
//!
//! Fields are optional because a job file may name only some of them; canonicalization fills the
//! rest from the job's level and from the job type's defaults. The getters of the same names are
//! for readers of canonical jobs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::choice::{UnknownChoice, closed_choice};
use crate::duration;

/// Restarts of a task on the same node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RestartPolicy {
    /// Restarts allowed within one interval.
    pub attempts: Option<u32>,
    /// Wait before a restart; a random quarter is added.
    #[serde(with = "duration::ns_option")]
    pub delay: Option<Duration>,
    /// The interval, counted from the task's first start in it.
    #[serde(with = "duration::ns_option")]
    pub interval: Option<Duration>,
    /// `fail` or `delay`: see [`RestartMode`].
    pub mode: Option<String>,
    /// Whether templates are rendered again before a restart.
    pub render_templates: Option<bool>,
}

closed_choice! {
    /// What happens when the attempts of an interval are used up.
    pub enum RestartMode("restart mode") {
        /// The task fails.
        Fail = "fail",
        /// It waits for the next interval.
        Delay = "delay",
    }
}

impl RestartPolicy {
    /// What happens when the attempts of an interval are used up; `fail` where nothing is said.
    pub fn mode(&self) -> Result<RestartMode, UnknownChoice> {
        self.mode
            .as_deref()
            .map_or(Ok(RestartMode::Fail), str::parse)
    }

    /// Restarts allowed within one interval.
    pub fn attempts(&self) -> u32 {
        self.attempts.unwrap_or(0)
    }

    /// Wait before a restart.
    pub fn delay(&self) -> Duration {
        self.delay.unwrap_or_default()
    }

    /// The interval in which attempts are counted.
    pub fn interval(&self) -> Duration {
        self.interval.unwrap_or_default()
    }
}

/// New allocations after one failed for good on its node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ReschedulePolicy {
    /// Attempts allowed within the interval, unless unlimited.
    pub attempts: Option<u32>,
    /// The sliding interval.
    #[serde(with = "duration::ns_option")]
    pub interval: Option<Duration>,
    /// Wait before the first attempt.
    #[serde(with = "duration::ns_option")]
    pub delay: Option<Duration>,
    /// How the wait grows: see [`DelayFunction`].
    pub delay_function: Option<String>,
    /// The longest wait of growing functions.
    #[serde(with = "duration::ns_option")]
    pub max_delay: Option<Duration>,
    /// Whether attempts are not counted at all.
    pub unlimited: Option<bool>,
}

closed_choice! {
    /// How the wait before a reschedule grows from attempt to attempt.
    pub enum DelayFunction("delay function") {
        /// It stays the same.
        Constant = "constant",
        /// It doubles.
        Exponential = "exponential",
        /// It is the sum of the two before.
        Fibonacci = "fibonacci",
    }
}

impl ReschedulePolicy {
    /// How the wait grows; `constant` where nothing is said.
    pub fn delay_function(&self) -> Result<DelayFunction, UnknownChoice> {
        match self.delay_function.as_deref() {
            None | Some("") => Ok(DelayFunction::Constant),
            Some(text) => text.parse(),
        }
    }

    /// Attempts allowed within the interval.
    pub fn attempts(&self) -> u32 {
        self.attempts.unwrap_or(0)
    }

    /// The sliding interval.
    pub fn interval(&self) -> Duration {
        self.interval.unwrap_or_default()
    }

    /// Wait before the first attempt.
    pub fn delay(&self) -> Duration {
        self.delay.unwrap_or_default()
    }

    /// The longest wait.
    pub fn max_delay(&self) -> Duration {
        self.max_delay.unwrap_or_default()
    }

    /// Whether attempts are not counted.
    pub fn unlimited(&self) -> bool {
        self.unlimited.unwrap_or(false)
    }

    /// Whether the policy allows any new allocation at all.
    pub fn is_enabled(&self) -> bool {
        self.unlimited() || self.attempts() > 0
    }
}

/// How a changed job is rolled out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct UpdateStrategy {
    /// Wait between the steps of a system job.
    #[serde(with = "duration::ns_option")]
    pub stagger: Option<Duration>,
    /// Allocations that are updated at the same time; 0 is all at once, without a deployment.
    pub max_parallel: Option<u32>,
    /// What counts as healthy: see [`HealthCheck`].
    pub health_check: Option<String>,
    /// How long an allocation must be healthy before it counts.
    #[serde(with = "duration::ns_option")]
    pub min_healthy_time: Option<Duration>,
    /// When an allocation that is not healthy yet counts as unhealthy.
    #[serde(with = "duration::ns_option")]
    pub healthy_deadline: Option<Duration>,
    /// When a deployment without a newly healthy allocation fails; 0 fails on the first unhealthy.
    #[serde(with = "duration::ns_option")]
    pub progress_deadline: Option<Duration>,
    /// Allocations of the new version that are started beside the old ones first.
    pub canary: Option<u32>,
    /// Whether a failed deployment goes back to the last stable version.
    pub auto_revert: Option<bool>,
    /// Whether healthy canaries are promoted without an operator.
    pub auto_promote: Option<bool>,
}

closed_choice! {
    /// What makes an allocation healthy during a rollout or drain.
    pub enum HealthCheck("health check") {
        /// Its tasks run and its service checks pass.
        Checks = "checks",
        /// Its tasks run.
        TaskStates = "task_states",
        /// An operator says so.
        Manual = "manual",
    }
}

impl UpdateStrategy {
    /// What counts as healthy; `checks` where nothing is said.
    pub fn health_check(&self) -> Result<HealthCheck, UnknownChoice> {
        health_check(self.health_check.as_deref())
    }

    /// Wait between the steps of a system job.
    pub fn stagger(&self) -> Duration {
        self.stagger.unwrap_or_default()
    }

    /// Allocations that are updated at the same time.
    pub fn max_parallel(&self) -> u32 {
        self.max_parallel.unwrap_or(0)
    }

    /// How long an allocation must be healthy before it counts.
    pub fn min_healthy_time(&self) -> Duration {
        self.min_healthy_time.unwrap_or_default()
    }

    /// When an allocation that is not healthy yet counts as unhealthy.
    pub fn healthy_deadline(&self) -> Duration {
        self.healthy_deadline.unwrap_or_default()
    }

    /// When a deployment without progress fails.
    pub fn progress_deadline(&self) -> Duration {
        self.progress_deadline.unwrap_or_default()
    }

    /// Canaries to start first.
    pub fn canary(&self) -> u32 {
        self.canary.unwrap_or(0)
    }

    /// Whether a failed deployment goes back to the last stable version.
    pub fn auto_revert(&self) -> bool {
        self.auto_revert.unwrap_or(false)
    }

    /// Whether healthy canaries are promoted without an operator.
    pub fn auto_promote(&self) -> bool {
        self.auto_promote.unwrap_or(false)
    }
}

/// How allocations leave a node that drains.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MigrateStrategy {
    /// Allocations that move at the same time.
    pub max_parallel: Option<u32>,
    /// What makes the successor healthy: see [`HealthCheck`].
    pub health_check: Option<String>,
    /// How long it must be healthy before it counts.
    #[serde(with = "duration::ns_option")]
    pub min_healthy_time: Option<Duration>,
    /// When a successor that is not healthy yet counts as unhealthy.
    #[serde(with = "duration::ns_option")]
    pub healthy_deadline: Option<Duration>,
}

impl MigrateStrategy {
    /// What counts as healthy; `checks` where nothing is said.
    pub fn health_check(&self) -> Result<HealthCheck, UnknownChoice> {
        health_check(self.health_check.as_deref())
    }

    /// Allocations that move at the same time.
    pub fn max_parallel(&self) -> u32 {
        self.max_parallel.unwrap_or(1)
    }

    /// How long a successor must be healthy before it counts.
    pub fn min_healthy_time(&self) -> Duration {
        self.min_healthy_time.unwrap_or_default()
    }

    /// When a successor that is not healthy yet counts as unhealthy.
    pub fn healthy_deadline(&self) -> Duration {
        self.healthy_deadline.unwrap_or_default()
    }
}

/// What happens while an allocation's node is unreachable.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DisconnectStrategy {
    /// How long its allocations stay unknown before they are lost.
    #[serde(with = "duration::ns_option")]
    pub lost_after: Option<Duration>,
    /// Whether replacements are started meanwhile; absent becomes true.
    pub replace: Option<bool>,
    /// After how long without contact the node itself stops the group.
    #[serde(with = "duration::ns_option")]
    pub stop_on_client_after: Option<Duration>,
    /// Which allocation stays after a reconnect: see [`ReconcileStrategy`].
    pub reconcile: Option<String>,
}

closed_choice! {
    /// Which allocation stays when a node returns and a replacement exists.
    pub enum ReconcileStrategy("reconcile strategy") {
        /// The one on the better node; at equal scores the original.
        BestScore = "best_score",
        /// The original.
        KeepOriginal = "keep_original",
        /// The replacement.
        KeepReplacement = "keep_replacement",
        /// The one that has run longest.
        LongestRunning = "longest_running",
    }
}

impl DisconnectStrategy {
    /// Which allocation stays; `best_score` where nothing is said.
    pub fn reconcile(&self) -> Result<ReconcileStrategy, UnknownChoice> {
        match self.reconcile.as_deref() {
            None | Some("") => Ok(ReconcileStrategy::BestScore),
            Some(text) => text.parse(),
        }
    }
}

/// An empty text is what servers answer where nothing was said.
fn health_check(text: Option<&str>) -> Result<HealthCheck, UnknownChoice> {
    match text {
        None | Some("") => Ok(HealthCheck::Checks),
        Some(text) => text.parse(),
    }
}
