//! Allocations: one placement of a task group on one node.
//!
//! Here: what is wanted and reported. `resources`: what it was given. `course`: what became of it
//! besides. `stub`: its line in a list.

mod course;
mod resources;
mod stub;

pub use course::*;
pub use resources::*;
pub use stub::*;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AllocId, DeploymentId, EvalId, JobKey, NodeId, SpecHash};
use crate::instant::UnixNanos;
use crate::job::Job;
use crate::metrics::AllocMetric;
use crate::network::NetworkStatus;
use crate::nullable;
use crate::policy::ReschedulePolicy;
use crate::task_state::{TaskRunState, TaskState};

/// What the control plane wants of an allocation.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum DesiredStatus {
    /// Run it.
    #[default]
    Run,
    /// Stop it.
    Stop,
    /// Stop it: something of higher priority needs its place.
    Evict,
}

/// What the node reports of an allocation, or the control plane on a lost node's behalf.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ClientStatus {
    /// Not started yet.
    #[default]
    Pending,
    /// At least one task runs.
    Running,
    /// All tasks ended well.
    Complete,
    /// A task failed for good.
    Failed,
    /// Its node is gone.
    Lost,
    /// Its node is silent and may return.
    Unknown,
}

impl ClientStatus {
    /// Whether it will never change again.
    #[inline]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Lost)
    }

    /// The word that the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }
}

/// One allocation, in the shape of the API.
///
/// In replicated state `job` is `None`: the specification is stored once under `spec` and joined in
/// by whoever answers a reader. In memory the parts are shared, so that a snapshot is cheap.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Allocation {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: AllocId,
    /// The namespace of its job.
    pub namespace: String,
    /// The evaluation that placed it.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// `job.group[index]`.
    pub name: String,
    /// The node it is on.
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// That node's name when it was placed.
    #[serde(default)]
    pub node_name: String,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The whole job, joined in for readers.
    #[serde(default)]
    pub job: Option<Arc<Job>>,
    /// The job's version when it was placed or last updated in place.
    #[serde(default)]
    pub job_version: u64,
    /// The create index of that job: purging and registering again starts at version 0.
    #[serde(default)]
    pub job_create_index: u64,
    /// The specification it runs.
    #[serde(rename = "SpecHash", default)]
    pub spec: SpecHash,
    /// Its task group.
    pub task_group: String,
    /// What it was given. Shared, as `metrics`: fixed by the plan, while reports make copy after
    /// copy of the rest.
    #[serde(default)]
    pub allocated_resources: Arc<AllocatedResources>,
    /// Why it is where it is.
    #[serde(default)]
    pub metrics: Arc<AllocMetric>,
    /// What the control plane wants.
    #[serde(default)]
    pub desired_status: DesiredStatus,
    /// Why, for people.
    #[serde(default)]
    pub desired_description: String,
    /// Marks that ask the scheduler for a move.
    #[serde(default)]
    pub desired_transition: DesiredTransition,
    /// What the node reports.
    #[serde(default)]
    pub client_status: ClientStatus,
    /// Why, for people.
    #[serde(default)]
    pub client_description: String,
    /// Each task's state.
    #[serde(default, with = "nullable")]
    pub task_states: BTreeMap<String, TaskState>,
    /// Its own network, as the node reports it; `None` where it shares the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_status: Option<Arc<NetworkStatus>>,
    /// Changes of client status that the control plane itself recorded (`unknown` and back):
    /// the only source of "is it reconnecting?".
    #[serde(default, with = "nullable")]
    pub alloc_states: Vec<AllocState>,
    /// The deployment that it belongs to.
    #[serde(rename = "DeploymentID", default, with = "crate::optional_id")]
    pub deployment_id: Option<DeploymentId>,
    /// Its health within that deployment.
    #[serde(default)]
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// The evaluation that will reschedule it later.
    #[serde(rename = "FollowupEvalID", default, with = "crate::optional_id")]
    pub followup_eval_id: Option<EvalId>,
    /// The allocation that this one replaces.
    #[serde(default, with = "crate::optional_id")]
    pub previous_allocation: Option<AllocId>,
    /// The allocation that replaced this one.
    #[serde(default, with = "crate::optional_id")]
    pub next_allocation: Option<AllocId>,
    /// Earlier attempts at rescheduling.
    #[serde(default)]
    pub reschedule_tracker: Option<RescheduleTracker>,
    /// What had to go for it.
    #[serde(default, with = "nullable")]
    pub preempted_allocations: Vec<AllocId>,
    /// What it had to go for.
    #[serde(default, with = "crate::optional_id")]
    pub preempted_by_allocation: Option<AllocId>,
    /// The log index that made it.
    #[serde(default)]
    pub create_index: u64,
    /// The log index that last changed it.
    #[serde(default)]
    pub modify_index: u64,
    /// The log index that last changed what is wanted of it: the version that its node follows.
    #[serde(default)]
    pub alloc_modify_index: u64,
    /// When it was made.
    #[serde(default)]
    pub create_time: UnixNanos,
    /// When it last changed.
    #[serde(default)]
    pub modify_time: UnixNanos,
}

impl Allocation {
    /// Its job.
    pub fn job_key(&self) -> JobKey {
        JobKey::new(self.namespace.clone(), self.job_id.clone())
    }

    /// The number in its name: `2` of `web.frontend[2]`.
    pub fn index(&self) -> Option<u32> {
        Self::index_of(&self.name)
    }

    /// The number in the name of an allocation.
    pub fn index_of(name: &str) -> Option<u32> {
        let name = name.strip_suffix(']')?;
        // From the end, byte by byte: the number is short, the name is not.
        let bracket = name.bytes().rposition(|byte| byte == b'[')?;
        name[bracket + 1..].parse().ok()
    }

    /// The name of the allocation with number `index` of a group.
    pub fn name_of(job_id: &str, task_group: &str, index: u32) -> String {
        format!("{job_id}.{task_group}[{index}]")
    }

    /// Whether the control plane wants it gone.
    #[inline]
    pub fn server_terminal(&self) -> bool {
        matches!(
            self.desired_status,
            DesiredStatus::Stop | DesiredStatus::Evict
        )
    }

    /// Whether the node is done with it.
    #[inline]
    pub fn client_terminal(&self) -> bool {
        self.client_status.is_terminal()
    }

    /// Whether either side is done with it.
    #[inline]
    pub fn terminal(&self) -> bool {
        self.server_terminal() || self.client_terminal()
    }

    /// Whether it takes room of its node: until its node reports its end, also while it is being
    /// stopped.
    #[inline]
    pub fn holds_room(&self) -> bool {
        !self.client_terminal()
    }

    /// Whether it ran to a good end: every task dead, none failed.
    pub fn ran_successfully(&self) -> bool {
        if self.task_states.is_empty() {
            return self.client_status == ClientStatus::Complete;
        }
        self.task_states.values().all(TaskState::successful)
    }

    /// When it ended: when its last task finished, or when the report came.
    pub fn ended_at(&self) -> UnixNanos {
        self.finished_at().unwrap_or(self.modify_time)
    }

    /// Whether `policy` allows one more attempt after a failure of this allocation. An attempt
    /// without a delay followed an end that was no failure, and does not count.
    pub fn has_attempt_left(&self, policy: &ReschedulePolicy) -> bool {
        if policy.unlimited() || self.desired_transition.should_force_reschedule() {
            return true;
        }
        let ended_at = self.ended_at();
        let events = self.reschedule_tracker.iter().flat_map(|it| &it.events);
        let within = events.filter(|event| {
            !event.delay.is_zero()
                && ended_at.saturating_since(event.reschedule_time) < policy.interval()
        });
        within.count() < policy.attempts() as usize
    }

    /// When its last task finished, once all are dead.
    pub fn finished_at(&self) -> Option<UnixNanos> {
        if self
            .task_states
            .values()
            .any(|task| task.state != TaskRunState::Dead)
        {
            return None;
        }
        self.task_states
            .values()
            .filter_map(|task| task.finished_at)
            .max()
    }

    /// Whether the newest recorded client status is `unknown`: its node was silent, and nobody has
    /// decided yet what its return means.
    pub fn needs_reconnect(&self) -> bool {
        self.alloc_states
            .last()
            .is_some_and(|state| state.value == ClientStatus::Unknown)
    }

    /// When the control plane last decided that this one goes on after its node had been silent;
    /// nothing while that was never so. Its value tells one return from another.
    pub fn reconnected_at(&self) -> Option<UnixNanos> {
        let returned = |pair: &&[AllocState]| {
            pair[0].value == ClientStatus::Unknown && pair[1].value != ClientStatus::Unknown
        };
        let newest = self.alloc_states.windows(2).rfind(returned)?;
        Some(newest[1].time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_from_the_name() {
        let nobody = NodeId::from_u128(0);
        let mut alloc: Allocation = serde_json::from_value(serde_json::json!({
            "ID": AllocId::from_u128(1), "Namespace": "default", "EvalID": EvalId::from_u128(2),
            "Name": "", "NodeID": nobody, "JobID": "we[b]", "TaskGroup": "front",
        }))
        .expect("the fields of an allocation");
        for (name, number) in [
            (Allocation::name_of("we[b]", "front", 12).as_str(), Some(12)),
            ("web.front[0]", Some(0)),
            ("web.front[-1]", None),
            ("web.front[1", None),
            ("web.front", None),
        ] {
            name.clone_into(&mut alloc.name);
            assert_eq!(alloc.index(), number, "{name}");
        }
    }
}
