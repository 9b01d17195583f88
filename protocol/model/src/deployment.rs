//! Deployments: supervised rollouts of one job version.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::alloc::{AllocDeploymentStatus, Allocation};
use crate::duration;
use crate::ids::{AllocId, DeploymentId, JobKey};
use crate::instant::{UnixNanos, rfc3339};
use crate::nullable;

/// Where a rollout is.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum DeploymentStatus {
    /// It goes on.
    #[default]
    Running,
    /// An operator paused it.
    Paused,
    /// It failed.
    Failed,
    /// Every allocation became healthy.
    Successful,
    /// A newer version or a stop ended it.
    Cancelled,
    /// It is being set up.
    Initializing,
    /// It waits for its turn.
    Pending,
    /// It waits for other regions.
    Blocked,
    /// It is being released by other regions.
    Unblocking,
}

impl DeploymentStatus {
    /// Whether it may still change.
    pub fn is_active(self) -> bool {
        !matches!(self, Self::Failed | Self::Successful | Self::Cancelled)
    }
}

/// One rollout, in the shape of the API.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Deployment {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: DeploymentId,
    /// The namespace of its job.
    pub namespace: String,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The version that it rolls out.
    pub job_version: u64,
    /// The job's modify index then.
    #[serde(default)]
    pub job_modify_index: u64,
    /// The job's specification index then.
    #[serde(default)]
    pub job_spec_modify_index: u64,
    /// The job's create index, which tells a job from a later one of the same name.
    #[serde(default)]
    pub job_create_index: u64,
    /// Whether several regions take part.
    #[serde(default)]
    pub is_multiregion: bool,
    /// Per task group, how far it is.
    #[serde(default, with = "nullable")]
    pub task_groups: BTreeMap<String, DeploymentState>,
    /// Where it is.
    pub status: DeploymentStatus,
    /// Why, for people.
    #[serde(default)]
    pub status_description: String,
    /// The priority of the evaluations that it makes.
    #[serde(default)]
    pub eval_priority: i32,
    /// The log index that made it.
    #[serde(default)]
    pub create_index: u64,
    /// The log index that last changed it.
    #[serde(default)]
    pub modify_index: u64,
    /// When it was made.
    #[serde(default)]
    pub create_time: UnixNanos,
    /// When it last changed.
    #[serde(default)]
    pub modify_time: UnixNanos,
}

impl Deployment {
    /// Whether nothing of its version may be placed: several regions take part, and its turn has
    /// not come, or somebody ended or paused it before that.
    pub fn is_withheld(&self) -> bool {
        let mut groups = self.task_groups.values();
        self.is_multiregion
            && match self.status {
                DeploymentStatus::Initializing | DeploymentStatus::Pending => true,
                DeploymentStatus::Paused
                | DeploymentStatus::Failed
                | DeploymentStatus::Cancelled => groups.all(|group| group.placed_allocs == 0),
                DeploymentStatus::Running
                | DeploymentStatus::Successful
                | DeploymentStatus::Blocked
                | DeploymentStatus::Unblocking => false,
            }
    }

    /// Whether a plan still has to say what its groups want: it was made with its version.
    pub fn lacks_groups(&self) -> bool {
        self.is_multiregion && self.status.is_active() && self.task_groups.is_empty()
    }

    /// Its job.
    pub fn job_key(&self) -> JobKey {
        JobKey::new(self.namespace.clone(), self.job_id.clone())
    }

    /// The status description while it is running: it names the promotion that it waits for.
    pub fn running_description(&self) -> &'static str {
        let mut waiting = self
            .task_groups
            .values()
            .filter(|group| group.awaits_promotion())
            .peekable();
        if waiting.peek().is_none() {
            return Self::RUNNING;
        }
        if waiting.all(|group| group.auto_promote) {
            Self::PENDING_PROMOTION
        } else {
            Self::NEEDS_PROMOTION
        }
    }

    /// A status description (Nomad's text, as all of these).
    pub const RUNNING: &'static str = "Deployment is running";
    /// Running, and a person has to promote its canaries.
    pub const NEEDS_PROMOTION: &'static str = "Deployment is running but requires manual promotion";
    /// Running, and the leader promotes its canaries once all are healthy.
    pub const PENDING_PROMOTION: &'static str = "Deployment is running pending automatic promotion";
    /// Made with its version, or with its groups, in one of several regions.
    pub const PENDING_FOR_PEER: &'static str = "Deployment is pending, waiting for peer region";
    /// Paused.
    pub const PAUSED: &'static str = "Deployment is paused";
    /// Successful.
    pub const SUCCESSFUL: &'static str = "Deployment completed successfully";
    /// Failed by a person.
    pub const MARKED_FAILED: &'static str = "Deployment marked as failed";
    /// Failed because an allocation is unhealthy.
    pub const UNHEALTHY: &'static str = "Failed due to unhealthy allocations";
    /// Failed because nothing became healthy in time.
    pub const NO_PROGRESS: &'static str = "Failed due to progress deadline";
    /// Cancelled by a newer version.
    pub const NEWER_VERSION: &'static str = "Cancelled due to newer version of job";
    /// Cancelled by a stop of its job.
    pub const JOB_STOPPED: &'static str = "Cancelled because job is stopped";
}

/// How far one task group's rollout is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentState {
    /// Go back to the last stable version when it fails.
    pub auto_revert: bool,
    /// Promote the canaries as soon as all are healthy.
    pub auto_promote: bool,
    /// How long without progress before it fails; zero = fail on the first unhealthy allocation.
    #[serde(with = "duration::ns")]
    pub progress_deadline: Duration,
    /// When the next progress is due.
    #[serde(with = "rfc3339")]
    pub require_progress_by: Option<UnixNanos>,
    /// Whether the canaries were promoted.
    pub promoted: bool,
    /// The canaries placed.
    #[serde(with = "nullable")]
    pub placed_canaries: Vec<AllocId>,
    /// How many canaries are wanted.
    pub desired_canaries: u32,
    /// How many allocations are wanted.
    pub desired_total: u32,
    /// How many were placed.
    pub placed_allocs: u32,
    /// How many of them are healthy.
    pub healthy_allocs: u32,
    /// How many of them are unhealthy.
    pub unhealthy_allocs: u32,
}

impl DeploymentState {
    /// Whether the group has canaries that were not promoted yet.
    pub fn awaits_promotion(&self) -> bool {
        self.desired_canaries > 0 && !self.promoted
    }

    /// How many healthy allocations of the group are waited for now: its canaries, until they are
    /// promoted.
    pub fn awaited_allocs(&self) -> u32 {
        if self.awaits_promotion() {
            self.desired_canaries
        } else {
            self.desired_total
        }
    }

    /// How many of the group's canaries are live and healthy; `alloc` finds an allocation.
    pub fn healthy_canaries<'a>(&self, alloc: impl Fn(AllocId) -> Option<&'a Allocation>) -> u32 {
        let placed = self.placed_canaries.iter().filter_map(|id| alloc(*id));
        let healthy = placed.filter(|alloc| {
            let health = alloc.deployment_status.as_ref();
            !alloc.terminal() && health.is_some_and(AllocDeploymentStatus::is_healthy)
        });
        u32::try_from(healthy.count()).unwrap_or(u32::MAX)
    }
}
