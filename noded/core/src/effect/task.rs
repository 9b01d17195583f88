//! What preparing and starting an attempt takes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{DnsConfig, NetworkStatus, VolumeMount};

use crate::alloc_spec::AllocSpec;
use crate::key::RunKey;

/// A step of preparing a task, in the order in which they are listed.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskHook {
    /// Check the task against this host: its user is allowed and exists, its driver works.
    Validate,
    /// Make the task's directories.
    TaskDirectory,
    /// Make the output streams of this attempt and tell pump.
    Logs,
    /// Write the payload of a dispatched job.
    DispatchPayload,
    /// Listen on the task's socket of the Task API. A failure is an event: the task goes on.
    Api,
    /// Wait for the identities that the task shows, and write their files.
    Identity,
    /// Fetch the artifacts that were not fetched yet; before the templates, which may read them.
    Artifacts,
    /// Render the templates, as `PrepareTask::templates` says.
    Templates,
}

impl TaskHook {
    /// The hook's name, as messages and the journal have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::TaskDirectory => "task_dir",
            Self::Logs => "logs",
            Self::DispatchPayload => "dispatch_payload",
            Self::Api => "api",
            Self::Identity => "Identity",
            Self::Artifacts => "artifacts",
            Self::Templates => "template",
        }
    }
}

/// What preparing an attempt needs.
#[derive(Clone, PartialEq, Debug)]
pub struct PrepareTask {
    /// The attempt.
    pub run: RunKey,
    /// The allocation.
    pub spec: Arc<AllocSpec>,
    /// The user, `${...}` resolved as far as templates are not needed for it; empty = the driver's
    /// default.
    pub user: String,
    /// What to do. A hook that was done once and for all in an earlier attempt is left out.
    pub hooks: Vec<TaskHook>,
    /// The environment that templates see, without what they will add themselves.
    pub environment: BTreeMap<String, String>,
    /// Templates with their paths on the host, `${...}` resolved, in the job's order.
    pub templates: Vec<PreparedTemplate>,
    /// Artifacts that were not fetched yet, `${...}` resolved, in the job's order.
    pub artifacts: Vec<PreparedArtifact>,
    /// The identities that the task shows.
    pub identities: Vec<PreparedIdentity>,
    /// Where the payload of a dispatched job goes, on the host, where the task wants it.
    pub dispatch_payload_file: Option<String>,
}

/// Whether a template's file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rendering {
    /// It is rendered and written.
    Anew,
    /// The file stays as it is. It is rendered where it is absent, or where a file that it reads
    /// has changed since.
    Kept,
}

/// A template with everything but its rendered text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedTemplate {
    /// The template in the job: an offset into the task's list.
    pub offset: usize,
    /// Whether its file is written.
    pub rendering: Rendering,
    /// The source file on the host; `None` = the inline data.
    pub source: Option<String>,
    /// The destination on the host, beneath the allocation's directory.
    pub destination: String,
}

/// An identity that a task shows, without its token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedIdentity {
    /// Its name.
    pub name: String,
    /// The file on the host, beneath the task's directory; `None` = none is asked for.
    pub file: Option<String>,
    /// The variable of the task's environment; `None` = none is asked for.
    pub variable: Option<String>,
}

/// An artifact with everything resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedArtifact {
    /// The artifact in the job: an offset into the task's list.
    pub offset: usize,
    /// Where from, as getters read it.
    pub source: String,
    /// Options of the getter: `checksum`, `archive`, `ref`...
    pub options: BTreeMap<String, String>,
    /// HTTP headers.
    pub headers: BTreeMap<String, String>,
    /// The destination on the host; whether it is beneath the allocation's directory is for the
    /// shell to check.
    pub destination: String,
}

/// A program that is run inside a task after a template of it changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeScriptRun {
    /// The attempt.
    pub run: RunKey,
    /// The template: an offset into the task's list.
    pub offset: usize,
    /// The program as the task sees it, `${...}` resolved.
    pub command: String,
    /// Its arguments, `${...}` resolved.
    pub args: Vec<String>,
    /// It is killed after this time.
    pub timeout: Duration,
}

/// What starting an attempt needs.
#[derive(Clone, PartialEq, Debug)]
pub struct StartTask {
    /// The attempt.
    pub run: RunKey,
    /// The allocation.
    pub spec: Arc<AllocSpec>,
    /// The driver's name.
    pub driver: String,
    /// The driver's configuration with `${...}` resolved.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// The user, `${...}` resolved; empty = the driver's default.
    pub user: String,
    /// The whole environment, except the host variables that the driver lets through beneath it.
    pub environment: BTreeMap<String, String>,
    /// The group's network.
    pub network: TaskNetwork,
    /// Where the task sees volumes of its group, `${...}` resolved.
    pub volume_mounts: Vec<VolumeMount>,
    /// The identities that the task shows.
    pub identities: Vec<PreparedIdentity>,
}

/// A group's network as its tasks see it, `${...}` resolved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskNetwork {
    /// The allocation's own network; `None` where it shares the node's or has none.
    pub status: Option<NetworkStatus>,
    /// The host name inside; `""` = the node's.
    pub hostname: String,
    /// How names are resolved inside, where the job says it.
    pub dns: Option<DnsConfig>,
}
