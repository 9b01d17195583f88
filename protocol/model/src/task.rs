//! Tasks: one process tree each, run by a driver.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::artifact::Artifact;
use crate::duration;
use crate::identity::{Consul, Vault, WorkloadIdentity};
use crate::lifecycle::{LifecycleHook, TaskLifecycle};
use crate::logs::LogConfig;
use crate::nullable;
use crate::nullable::or_default;
use crate::parameterized::DispatchPayload;
use crate::placement::{Affinity, Constraint};
use crate::policy::RestartPolicy;
use crate::resources::Resources;
use crate::scaling::ScalingPolicy;
use crate::schedule::Schedule;
use crate::secret::Secret;
use crate::service::Service;
use crate::template::Template;
use crate::volume::{CsiPluginConfig, VolumeMount};

/// One process tree, run by a driver.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Task {
    /// The task's name, unique within its group.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The driver that runs it.
    #[serde(deserialize_with = "or_default")]
    pub driver: String,
    /// The operating-system user; `""` is the driver's default.
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    /// When it runs relative to the group's main tasks.
    pub lifecycle: Option<TaskLifecycle>,
    /// The driver's own settings; the driver checks them.
    #[serde(with = "nullable")]
    pub config: BTreeMap<String, serde_json::Value>,
    /// Conditions that the node must meet.
    #[serde(with = "nullable")]
    pub constraints: Vec<Constraint>,
    /// Preferences among the nodes that meet them.
    #[serde(with = "nullable")]
    pub affinities: Vec<Affinity>,
    /// Environment variables, interpolated.
    #[serde(with = "nullable")]
    pub env: BTreeMap<String, String>,
    /// Services of the task.
    #[serde(with = "nullable")]
    pub services: Vec<Service>,
    /// What it needs of a node. Canonical: never absent.
    pub resources: Option<Resources>,
    /// Restarts on the same node. Canonical: never absent; inherits the group's.
    pub restart_policy: Option<RestartPolicy>,
    /// Free metadata: overrides the group's and the job's.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// Time between asking the task to stop and killing it. Canonical: never absent.
    #[serde(with = "duration::ns_option")]
    pub kill_timeout: Option<Duration>,
    /// Rotation of its output. Canonical: never absent.
    pub log_config: Option<LogConfig>,
    /// Files fetched before it starts.
    #[serde(with = "nullable")]
    pub artifacts: Vec<Artifact>,
    /// Vault token for the task.
    pub vault: Option<Vault>,
    /// Consul settings.
    pub consul: Option<Consul>,
    /// Files rendered before it starts.
    #[serde(with = "nullable")]
    pub templates: Vec<Template>,
    /// Where the payload of a dispatch is written.
    pub dispatch_payload: Option<DispatchPayload>,
    /// Where the group's volumes appear in the task.
    #[serde(with = "nullable")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Set for tasks that are themselves storage plugins.
    #[serde(skip_serializing_if = "Option::is_none", rename = "CSIPluginConfig")]
    pub csi_plugin_config: Option<CsiPluginConfig>,
    /// Whether the other main tasks are stopped when this one ends.
    #[serde(deserialize_with = "or_default")]
    pub leader: bool,
    /// Wait between deregistering services and stopping the task.
    #[serde(with = "duration::ns")]
    pub shutdown_delay: Duration,
    /// The signal that asks it to stop; `""` is the driver's default.
    #[serde(deserialize_with = "or_default")]
    pub kill_signal: String,
    /// Marks tasks injected for a service mesh: `connect-proxy:NAME` and the like.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Vertical scaling policies.
    #[serde(with = "nullable")]
    pub scaling_policies: Vec<ScalingPolicy>,
    /// The default workload identity. Canonical: never absent.
    pub identity: Option<WorkloadIdentity>,
    /// Further workload identities.
    #[serde(with = "nullable")]
    pub identities: Vec<WorkloadIdentity>,
    /// Commands that may be run by name inside the running task.
    #[serde(with = "nullable")]
    pub actions: Vec<Action>,
    /// Times of day at which the task runs.
    pub schedule: Option<Schedule>,
    /// Secrets that are fetched before the task starts.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub secrets: Vec<Secret>,
}

impl Task {
    /// The identities that the task gets a token of, by file or environment. Servers sign only
    /// those for it.
    pub fn shown_identities(&self) -> impl Iterator<Item = &WorkloadIdentity> {
        let all = self.identity.iter().chain(&self.identities);
        all.filter(|identity| identity.env || identity.file)
    }

    /// Time between asking the task to stop and killing it; 5 s where nothing is said.
    pub fn kill_timeout(&self) -> Duration {
        self.kill_timeout
            .unwrap_or(crate::canonical::defaults::KILL_TIMEOUT)
    }

    /// The hook the task belongs to; `None` for main tasks (and for hooks that do not exist,
    /// which [`crate::Job::validate`] refuses).
    pub fn hook(&self) -> Option<LifecycleHook> {
        self.lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.hook().ok())
    }
}
