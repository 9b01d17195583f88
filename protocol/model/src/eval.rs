//! Evaluations: durable requests to look at one job again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{DeploymentId, EvalId, JobKey, NodeId};
use crate::instant::{UnixNanos, rfc3339};
use crate::job::JobType;
use crate::metrics::AllocMetric;
use crate::nullable;

/// Where an evaluation is.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum EvalStatus {
    /// Waits until capacity appears.
    Blocked,
    /// Waits for a scheduler.
    #[default]
    Pending,
    /// Was carried out.
    Complete,
    /// Could not be carried out, even after retries.
    Failed,
    /// A newer evaluation of the same job took its place.
    #[serde(rename = "canceled")]
    Cancelled,
}

impl EvalStatus {
    /// The name that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Pending => "pending",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "canceled",
        }
    }

    /// Whether nothing more will happen to it.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Cancelled)
    }
}

/// Why an evaluation was made.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum EvalTrigger {
    /// A job was registered or changed.
    #[default]
    JobRegister,
    /// A job was stopped.
    JobDeregister,
    /// A periodic job's time came.
    PeriodicJob,
    /// A node began to drain.
    NodeDrain,
    /// A node came, went or changed.
    NodeUpdate,
    /// An operator stopped an allocation.
    AllocStop,
    /// A scheduled garbage collection.
    Scheduled,
    /// A rolling update goes on.
    RollingUpdate,
    /// A deployment changed.
    DeploymentWatcher,
    /// A failed evaluation is tried again.
    FailedFollowUp,
    /// Plans of the previous one were refused too often.
    MaxPlanAttempts,
    /// An allocation failed and may be rescheduled.
    #[serde(rename = "alloc-failure")]
    RetryFailedAlloc,
    /// Not everything could be placed.
    QueuedAllocs,
    /// Allocations of the job were preempted.
    Preemption,
    /// The job's count changed.
    JobScaling,
    /// A silent node's disconnect window ended.
    MaxDisconnectTimeout,
    /// A silent node came back.
    Reconnect,
}

impl EvalTrigger {
    /// The name that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JobRegister => "job-register",
            Self::JobDeregister => "job-deregister",
            Self::PeriodicJob => "periodic-job",
            Self::NodeDrain => "node-drain",
            Self::NodeUpdate => "node-update",
            Self::AllocStop => "alloc-stop",
            Self::Scheduled => "scheduled",
            Self::RollingUpdate => "rolling-update",
            Self::DeploymentWatcher => "deployment-watcher",
            Self::FailedFollowUp => "failed-follow-up",
            Self::MaxPlanAttempts => "max-plan-attempts",
            Self::RetryFailedAlloc => "alloc-failure",
            Self::QueuedAllocs => "queued-allocs",
            Self::Preemption => "preemption",
            Self::JobScaling => "job-scaling",
            Self::MaxDisconnectTimeout => "max-disconnect-timeout",
            Self::Reconnect => "reconnect",
        }
    }
}

/// One evaluation, in the shape of the API.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Evaluation {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: EvalId,
    /// The namespace of its job.
    pub namespace: String,
    /// The job's priority, 1–100.
    pub priority: i32,
    /// The kind of its job, which decides how it is scheduled.
    #[serde(rename = "Type")]
    pub job_type: JobType,
    /// Why it was made.
    pub triggered_by: EvalTrigger,
    /// The job that it looks at.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The job's modify index when it was made.
    #[serde(default)]
    pub job_modify_index: u64,
    /// The node that caused it, where one did.
    #[serde(rename = "NodeID", default, with = "crate::optional_id")]
    pub node_id: Option<NodeId>,
    /// That node's modify index.
    #[serde(default)]
    pub node_modify_index: u64,
    /// The deployment that it belongs to.
    #[serde(rename = "DeploymentID", default, with = "crate::optional_id")]
    pub deployment_id: Option<DeploymentId>,
    /// Where it is.
    pub status: EvalStatus,
    /// Why it is there, for people.
    #[serde(default)]
    pub status_description: String,
    /// Not before this time.
    #[serde(default, with = "rfc3339")]
    pub wait_until: Option<UnixNanos>,
    /// The evaluation that follows this one.
    #[serde(default, with = "crate::optional_id")]
    pub next_eval: Option<EvalId>,
    /// The evaluation that this one follows.
    #[serde(default, with = "crate::optional_id")]
    pub previous_eval: Option<EvalId>,
    /// The evaluation that waits for capacity on behalf of this one.
    #[serde(default, with = "crate::optional_id")]
    pub blocked_eval: Option<EvalId>,
    /// Per task group, why not all could be placed.
    #[serde(rename = "FailedTGAllocs", default, with = "nullable")]
    pub failed_tg_allocs: BTreeMap<String, AllocMetric>,
    /// Node classes that were seen: eligible or not. A blocked evaluation is woken only by a class
    /// that is eligible or was not seen.
    #[serde(default, with = "nullable")]
    pub class_eligibility: BTreeMap<String, bool>,
    /// Whether a constraint looked at a property unique to each node, so that classes say nothing.
    #[serde(default)]
    pub escaped_computed_class: bool,
    /// The quota that was used up.
    #[serde(default)]
    pub quota_limit_reached: String,
    /// Whether it is a dry run.
    #[serde(default)]
    pub annotate_plan: bool,
    /// Per task group, how many are still to be placed.
    #[serde(default, with = "nullable")]
    pub queued_allocations: BTreeMap<String, i64>,
    /// The index of the snapshot that was scheduled from.
    #[serde(default)]
    pub snapshot_index: u64,
    /// When it was made.
    #[serde(default)]
    pub create_time: UnixNanos,
    /// When it last changed.
    #[serde(default)]
    pub modify_time: UnixNanos,
    /// The log index that made it.
    #[serde(default)]
    pub create_index: u64,
    /// The log index that last changed it.
    #[serde(default)]
    pub modify_index: u64,
}

impl Evaluation {
    /// A pending evaluation of `job`. Indexes are filled in when it is applied.
    pub fn new(
        id: EvalId,
        job: &JobKey,
        job_type: JobType,
        priority: i32,
        triggered_by: EvalTrigger,
        now: UnixNanos,
    ) -> Self {
        Self {
            id,
            namespace: job.namespace.clone(),
            priority,
            job_type,
            triggered_by,
            job_id: job.id.clone(),
            job_modify_index: 0,
            node_id: None,
            node_modify_index: 0,
            deployment_id: None,
            status: EvalStatus::Pending,
            status_description: String::new(),
            wait_until: None,
            next_eval: None,
            previous_eval: None,
            blocked_eval: None,
            failed_tg_allocs: BTreeMap::new(),
            class_eligibility: BTreeMap::new(),
            escaped_computed_class: false,
            quota_limit_reached: String::new(),
            annotate_plan: false,
            queued_allocations: BTreeMap::new(),
            snapshot_index: 0,
            create_time: now,
            modify_time: now,
            create_index: 0,
            modify_index: 0,
        }
    }

    /// Whether it looks at the same job as another one.
    pub fn is_of_same_job(&self, other: &Self) -> bool {
        self.job_id == other.job_id && self.namespace == other.namespace
    }

    /// The job that it looks at.
    pub fn job_key(&self) -> JobKey {
        JobKey::new(self.namespace.clone(), self.job_id.clone())
    }
}
