//! Allocations: one placement of a task group on one node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AllocId, DeploymentId, EvalId, JobKey, NodeId, SpecHash};
use crate::instant::{UnixNanos, rfc3339};
use crate::job::Job;
use crate::metrics::AllocMetric;
use crate::network::NetworkResource;
use crate::nullable;
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
    /// What it was given.
    #[serde(default)]
    pub allocated_resources: AllocatedResources,
    /// Why it is where it is.
    #[serde(default)]
    pub metrics: AllocMetric,
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
        let (_, rest) = self.name.rsplit_once('[')?;
        rest.strip_suffix(']')?.parse().ok()
    }

    /// The name of the allocation with number `index` of a group.
    pub fn name_of(job_id: &str, task_group: &str, index: u32) -> String {
        format!("{job_id}.{task_group}[{index}]")
    }

    /// Whether the control plane wants it gone.
    pub fn server_terminal(&self) -> bool {
        matches!(
            self.desired_status,
            DesiredStatus::Stop | DesiredStatus::Evict
        )
    }

    /// Whether the node is done with it.
    pub fn client_terminal(&self) -> bool {
        self.client_status.is_terminal()
    }

    /// Whether either side is done with it.
    pub fn terminal(&self) -> bool {
        self.server_terminal() || self.client_terminal()
    }

    /// Whether it ran to a good end: every task dead, none failed.
    pub fn ran_successfully(&self) -> bool {
        if self.task_states.is_empty() {
            return self.client_status == ClientStatus::Complete;
        }
        self.task_states.values().all(TaskState::successful)
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
}

/// A change of client status that the control plane recorded itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocState {
    /// The status from then on.
    pub value: ClientStatus,
    /// When.
    pub time: UnixNanos,
}

/// Marks that ask the scheduler to move an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DesiredTransition {
    /// Move it elsewhere: its node drains, or an operator stopped it.
    pub migrate: Option<bool>,
    /// It may be rescheduled.
    pub reschedule: Option<bool>,
    /// It may be rescheduled although its policy says no more.
    pub force_reschedule: Option<bool>,
    /// Skip the shutdown delay.
    pub no_shutdown_delay: Option<bool>,
}

impl DesiredTransition {
    /// Whether it is to be moved.
    pub fn should_migrate(&self) -> bool {
        self.migrate == Some(true)
    }

    /// Whether an operator forces a reschedule.
    pub fn should_force_reschedule(&self) -> bool {
        self.force_reschedule == Some(true)
    }
}

/// An allocation's health within its deployment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocDeploymentStatus {
    /// `None` until it is known.
    pub healthy: Option<bool>,
    /// Since when.
    #[serde(with = "rfc3339")]
    pub timestamp: Option<UnixNanos>,
    /// Whether it is a canary.
    pub canary: bool,
    /// The log index that last changed it.
    pub modify_index: u64,
}

impl AllocDeploymentStatus {
    /// Whether it is known to be healthy.
    pub fn is_healthy(&self) -> bool {
        self.healthy == Some(true)
    }

    /// Whether it is known to be unhealthy.
    pub fn is_unhealthy(&self) -> bool {
        self.healthy == Some(false)
    }
}

/// Earlier attempts at rescheduling, oldest first, bounded by the scheduler.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RescheduleTracker {
    /// The attempts.
    #[serde(with = "nullable")]
    pub events: Vec<RescheduleEvent>,
}

/// One attempt at rescheduling.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RescheduleEvent {
    /// When.
    pub reschedule_time: UnixNanos,
    /// The allocation that had failed.
    #[serde(rename = "PrevAllocID")]
    pub prev_alloc_id: AllocId,
    /// The node it had failed on.
    #[serde(rename = "PrevNodeID")]
    pub prev_node_id: NodeId,
    /// How long the policy waited, in nanoseconds.
    #[serde(default, with = "crate::duration::ns")]
    pub delay: std::time::Duration,
}

/// What an allocation was given on its node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedResources {
    /// Per task.
    #[serde(with = "nullable")]
    pub tasks: BTreeMap<String, AllocatedTaskResources>,
    /// For the group as a whole.
    pub shared: AllocatedSharedResources,
}

/// What one task was given.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedTaskResources {
    /// Processor time.
    pub cpu: AllocatedCpuResources,
    /// Memory.
    pub memory: AllocatedMemoryResources,
    /// Networks of the task itself (the older form of asking for ports).
    #[serde(with = "nullable")]
    pub networks: Vec<NetworkResource>,
    /// Devices.
    #[serde(with = "nullable")]
    pub devices: Vec<AllocatedDeviceResource>,
}

/// Processor time given to a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedCpuResources {
    /// Shares, in MHz as job files count them.
    pub cpu_shares: i64,
    /// Whole cores given to it alone.
    #[serde(with = "nullable")]
    pub reserved_cores: Vec<u16>,
}

/// Memory given to a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatedMemoryResources {
    /// What is reserved, MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
    /// What it may use when the node has it to spare, MiB; 0 = no more than is reserved.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: i64,
}

/// A device given to a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedDeviceResource {
    /// Its vendor.
    pub vendor: String,
    /// Its type.
    #[serde(rename = "Type")]
    pub device_type: String,
    /// Its model.
    pub name: String,
    /// Which ones.
    #[serde(rename = "DeviceIDs", with = "nullable")]
    pub device_ids: Vec<String>,
}

/// What the group as a whole was given.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedSharedResources {
    /// Disk, MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
    /// The group's networks, ports filled in.
    #[serde(with = "nullable")]
    pub networks: Vec<NetworkResource>,
    /// Every port of the group.
    #[serde(with = "nullable")]
    pub ports: Vec<AllocatedPort>,
}

/// One port given to an allocation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedPort {
    /// Its label in the job file.
    pub label: String,
    /// The port on the host.
    pub value: u16,
    /// The port inside the network namespace; 0 = the same.
    pub to: u16,
    /// The address on the host.
    #[serde(rename = "HostIP")]
    pub host_ip: String,
}

/// The short form of an allocation in lists.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocationListStub {
    #[serde(rename = "ID")]
    pub id: AllocId,
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    pub name: String,
    pub namespace: String,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    pub node_name: String,
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub job_type: String,
    pub job_version: u64,
    pub task_group: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_resources: Option<AllocatedResources>,
    pub desired_status: DesiredStatus,
    pub desired_description: String,
    #[serde(default)]
    pub desired_transition: DesiredTransition,
    pub client_status: ClientStatus,
    pub client_description: String,
    #[serde(default, with = "nullable")]
    pub task_states: BTreeMap<String, TaskState>,
    #[serde(default)]
    pub deployment_status: Option<AllocDeploymentStatus>,
    #[serde(rename = "FollowupEvalID", default, with = "crate::optional_id")]
    pub followup_eval_id: Option<EvalId>,
    #[serde(default, with = "crate::optional_id")]
    pub next_allocation: Option<AllocId>,
    #[serde(default)]
    pub reschedule_tracker: Option<RescheduleTracker>,
    #[serde(default, with = "nullable")]
    pub preempted_allocations: Vec<AllocId>,
    #[serde(default, with = "crate::optional_id")]
    pub preempted_by_allocation: Option<AllocId>,
    pub create_index: u64,
    pub modify_index: u64,
    pub create_time: UnixNanos,
    pub modify_time: UnixNanos,
}

/// Whether a list shows what each allocation was given (`?resources=true`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListResources {
    /// Leave them out.
    Omit,
    /// Show them.
    Include,
}

impl Allocation {
    /// The short form, for lists. `job_type` comes from the joined job, empty where it is not
    /// known.
    pub fn stub(&self, job_type: &str, resources: ListResources) -> AllocationListStub {
        AllocationListStub {
            id: self.id,
            eval_id: self.eval_id,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            node_id: self.node_id,
            node_name: self.node_name.clone(),
            job_id: self.job_id.clone(),
            job_type: job_type.to_owned(),
            job_version: self.job_version,
            task_group: self.task_group.clone(),
            allocated_resources: match resources {
                ListResources::Omit => None,
                ListResources::Include => Some(self.allocated_resources.clone()),
            },
            desired_status: self.desired_status,
            desired_description: self.desired_description.clone(),
            desired_transition: self.desired_transition,
            client_status: self.client_status,
            client_description: self.client_description.clone(),
            task_states: self.task_states.clone(),
            deployment_status: self.deployment_status.clone(),
            followup_eval_id: self.followup_eval_id,
            next_allocation: self.next_allocation,
            reschedule_tracker: self.reschedule_tracker.clone(),
            preempted_allocations: self.preempted_allocations.clone(),
            preempted_by_allocation: self.preempted_by_allocation,
            create_index: self.create_index,
            modify_index: self.modify_index,
            create_time: self.create_time,
            modify_time: self.modify_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_from_the_name() {
        let name = Allocation::name_of("we[b]", "front", 12);
        assert_eq!(name, "we[b].front[12]");
        let number = name
            .rsplit_once('[')
            .and_then(|(_, rest)| rest.strip_suffix(']'));
        assert_eq!(number, Some("12"));
    }
}
