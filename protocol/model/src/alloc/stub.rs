//! The short form of an allocation in lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    AllocDeploymentStatus, AllocatedResources, Allocation, ClientStatus, DesiredStatus,
    DesiredTransition, RescheduleTracker,
};
use crate::ids::{AllocId, EvalId, NodeId};
use crate::instant::UnixNanos;
use crate::job::Job;
use crate::lifecycle::TaskLifecycle;
use crate::nullable;
use crate::task_state::TaskState;

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
    pub allocated_resources: Option<ShownResources>,
    pub desired_status: DesiredStatus,
    pub desired_description: String,
    #[serde(default)]
    pub desired_transition: DesiredTransition,
    pub client_status: ClientStatus,
    pub client_description: String,
    #[serde(
        default,
        serialize_with = "crate::shown_states::serialize",
        deserialize_with = "nullable::deserialize"
    )]
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

/// What an allocation was given, as the API shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownResources {
    #[serde(flatten)]
    pub given: Arc<AllocatedResources>,
    /// When each task of the group runs; `None` for main tasks.
    #[serde(default, with = "nullable")]
    pub task_lifecycles: BTreeMap<String, Option<TaskLifecycle>>,
}

impl ShownResources {
    /// Those of `alloc`, whose joined job is `job`.
    pub fn new(alloc: &Allocation, job: Option<&Job>) -> Self {
        let group = job.and_then(|job| job.task_group(&alloc.task_group));
        let tasks = group.into_iter().flat_map(|group| &group.tasks);
        Self {
            given: Arc::clone(&alloc.allocated_resources),
            task_lifecycles: tasks
                .map(|task| (task.name.clone(), task.lifecycle.clone()))
                .collect(),
        }
    }
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
    /// The short form, for lists. `job` is the joined job; the job's type is empty where it is not
    /// known.
    pub fn stub(&self, job: Option<&Job>, resources: ListResources) -> AllocationListStub {
        AllocationListStub {
            id: self.id,
            eval_id: self.eval_id,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            node_id: self.node_id,
            node_name: self.node_name.clone(),
            job_id: self.job_id.clone(),
            job_type: job.map_or("", |job| job.job_type.as_str()).to_owned(),
            job_version: self.job_version,
            task_group: self.task_group.clone(),
            allocated_resources: match resources {
                ListResources::Omit => None,
                ListResources::Include => Some(ShownResources::new(self, job)),
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
