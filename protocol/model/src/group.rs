//! Task groups: tasks that are placed together on one node, with a count.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::identity::Consul;
use crate::network::NetworkResource;
use crate::nullable;
use crate::nullable::or_default;
use crate::placement::{Affinity, Constraint, Spread};
use crate::policy::{
    DisconnectStrategy, MigrateStrategy, ReschedulePolicy, RestartPolicy, UpdateStrategy,
};
use crate::scaling::ScalingPolicy;
use crate::service::Service;
use crate::task::Task;
use crate::volume::VolumeRequest;

/// Tasks that are placed together on one node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskGroup {
    /// The group's name, unique within its job.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// How many allocations; canonical: never absent. For the number, see [`TaskGroup::count`].
    pub count: Option<u32>,
    /// Conditions that every node must meet.
    #[serde(with = "nullable")]
    pub constraints: Vec<Constraint>,
    /// Preferences among the nodes that meet them.
    #[serde(with = "nullable")]
    pub affinities: Vec<Affinity>,
    /// The tasks.
    #[serde(with = "nullable")]
    pub tasks: Vec<Task>,
    /// How allocations are distributed over an attribute.
    #[serde(with = "nullable")]
    pub spreads: Vec<Spread>,
    /// Volumes that the group's tasks may mount, by name.
    #[serde(with = "nullable")]
    pub volumes: BTreeMap<String, VolumeRequest>,
    /// Restarts on the same node. Canonical: never absent.
    pub restart_policy: Option<RestartPolicy>,
    /// What happens while its node is unreachable.
    pub disconnect: Option<DisconnectStrategy>,
    /// New allocations after failure. Canonical: present for service and batch.
    pub reschedule_policy: Option<ReschedulePolicy>,
    /// Disk shared by the group's tasks. Canonical: never absent.
    pub ephemeral_disk: Option<EphemeralDisk>,
    /// How a changed job is rolled out. Canonical: present for service.
    pub update: Option<UpdateStrategy>,
    /// How allocations leave a draining node. Canonical: present for service.
    pub migrate: Option<MigrateStrategy>,
    /// The group's network; at most one.
    #[serde(with = "nullable")]
    pub networks: Vec<NetworkResource>,
    /// Free metadata: overrides the job's, overridden by the task's.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// Services of the group.
    #[serde(with = "nullable")]
    pub services: Vec<Service>,
    /// Wait between deregistering services and stopping tasks.
    #[serde(with = "duration::ns_option")]
    pub shutdown_delay: Option<Duration>,
    /// Older spelling of `disconnect.stop_on_client_after`.
    #[serde(with = "duration::ns_option")]
    pub stop_after_client_disconnect: Option<Duration>,
    /// Older spelling of `disconnect.lost_after`.
    #[serde(with = "duration::ns_option")]
    pub max_client_disconnect: Option<Duration>,
    /// Bounds and policy of an external autoscaler.
    pub scaling: Option<ScalingPolicy>,
    /// Consul settings.
    pub consul: Option<Consul>,
    /// Older spelling of the opposite of `disconnect.replace`.
    pub prevent_reschedule_on_lost: Option<bool>,
    /// How long a batch allocation may run.
    #[serde(skip_serializing_if = "Option::is_none", with = "duration::ns_option")]
    pub max_run_duration: Option<Duration>,
}

impl TaskGroup {
    /// How many allocations the group wants: 1 where the job is not canonical and says nothing.
    pub fn count(&self) -> u32 {
        self.count.unwrap_or(1)
    }

    /// The task of this name.
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// The lead task, whose end stops the other main tasks.
    pub fn lead_task(&self) -> Option<&Task> {
        self.tasks.iter().find(|task| task.leader)
    }

    /// How long an allocation on a silent node is tolerated, from either spelling.
    pub fn disconnect_window(&self) -> Option<Duration> {
        self.disconnect
            .as_ref()
            .and_then(|block| block.lost_after)
            .or(self.max_client_disconnect)
    }

    /// After how long without contact the node itself stops the group, from either spelling.
    pub fn stop_on_client_after(&self) -> Option<Duration> {
        self.disconnect
            .as_ref()
            .and_then(|block| block.stop_on_client_after)
            .or(self.stop_after_client_disconnect)
    }

    /// Within how long after the last sign of life nothing of the group runs on its node any more,
    /// whatever becomes of the node's daemon: `stop_on_client_after`, and the longest kill timeout
    /// of its tasks. `None` where the node goes on with the group however long it is not heard.
    pub fn lease_term(&self) -> Option<Duration> {
        let after = self.stop_on_client_after()?;
        let kill_timeout = self.tasks.iter().map(crate::Task::kill_timeout).max();
        Some(after.saturating_add(kill_timeout.unwrap_or_default()))
    }

    /// Within how long after its node fell silent nothing of the group can run there any more, by a
    /// clock that is five percent slower than the node's. `None` where the group does not stop
    /// itself.
    pub fn lease_over_after(&self) -> Option<Duration> {
        let term = self.lease_term()?;
        Some(term.saturating_add(term / 20))
    }

    /// How long nobody takes the place of an allocation whose node fell silent, because the node
    /// stops it by itself. `None` where the group does not stop itself, or is never replaced.
    pub fn lease_wait(&self) -> Option<Duration> {
        self.lease_over_after()
            .filter(|_| self.replaces_on_disconnect())
    }

    /// Whether a replacement is started while the original's node is silent, from either spelling.
    pub fn replaces_on_disconnect(&self) -> bool {
        match &self.disconnect {
            Some(block) => block.replace.unwrap_or(true),
            None => !self.prevent_reschedule_on_lost.unwrap_or(false),
        }
    }

    /// Whether nobody ever takes the place of a silent one, and it is waited for as long as it
    /// takes.
    pub fn is_waited_for_without_end(&self) -> bool {
        !self.replaces_on_disconnect() && self.disconnect_window().is_none()
    }

    /// Whether its policy forbids that anything of it is tried elsewhere (`attempts = 0`, and not
    /// `unlimited`).
    pub fn is_never_rescheduled(&self) -> bool {
        let policy = self.reschedule_policy.as_ref();
        policy.is_some_and(|policy| !policy.is_enabled())
    }
}

/// Disk space that the tasks of an allocation share. Counted when placing, not enforced.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EphemeralDisk {
    /// Whether a successor is preferably placed on the same node and gets the data.
    pub sticky: Option<bool>,
    /// Whether the data is copied when the successor is on another node.
    pub migrate: Option<bool>,
    /// Size in MB; absent becomes 300.
    #[serde(rename = "SizeMB")]
    pub size_mb: Option<u64>,
}

impl EphemeralDisk {
    /// The size in MB; 300 where nothing is said.
    pub fn size_mb(&self) -> u64 {
        self.size_mb
            .unwrap_or(crate::canonical::defaults::EPHEMERAL_DISK_MB)
    }

    /// Whether a successor is preferably placed on the same node and gets the data.
    pub fn sticky(&self) -> bool {
        self.sticky.unwrap_or(false)
    }
}
