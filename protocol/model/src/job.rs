//! The job: what a user wants to run, in the shape that `/v1/jobs` reads and writes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::group::TaskGroup;
use crate::ids::JobKey;
use crate::instant::UnixNanos;
use crate::multiregion::Multiregion;
use crate::nullable;
use crate::nullable::or_default;
use crate::parameterized::ParameterizedJobConfig;
use crate::periodic::PeriodicConfig;
use crate::placement::{Affinity, Constraint, Spread};
use crate::policy::{MigrateStrategy, ReschedulePolicy, UpdateStrategy};

/// Which scheduler a job belongs to, and with it how its allocations live.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum JobType {
    /// Runs until stopped; replaced when it fails. An absent type means this one.
    #[default]
    #[serde(alias = "")]
    Service,
    /// Runs to completion.
    Batch,
    /// One allocation on every eligible node, until stopped.
    System,
    /// One allocation on every eligible node, to completion.
    Sysbatch,
}

impl JobType {
    /// The name that job files use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Batch => "batch",
            Self::System => "system",
            Self::Sysbatch => "sysbatch",
        }
    }

    /// Whether the job runs once on each eligible node rather than `count` times anywhere.
    pub const fn is_per_node(self) -> bool {
        matches!(self, Self::System | Self::Sysbatch)
    }

    /// Whether its allocations are meant to end by themselves.
    pub const fn runs_to_completion(self) -> bool {
        matches!(self, Self::Batch | Self::Sysbatch)
    }
}

impl fmt::Display for JobType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a job is doing, derived by the control plane.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// Registered; nothing runs yet. A job that was never registered is in this state too.
    #[default]
    #[serde(alias = "")]
    Pending,
    /// Has live allocations or open evaluations, or waits for its next periodic launch.
    Running,
    /// Stopped, or everything it had to do is done.
    Dead,
}

impl JobStatus {
    /// The name that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A job specification together with what the control plane knows about it.
///
/// As it comes from a parser or a request, fields may be absent (`None`, `""`, `0`);
/// [`Job::canonicalize`] fills them. Scheduler and nodes only ever see canonical jobs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Job {
    /// The region that runs the job; `""` becomes `global`.
    #[serde(deserialize_with = "or_default")]
    pub region: String,
    /// The namespace; `""` becomes `default`.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// The job's identity within its namespace.
    #[serde(rename = "ID", deserialize_with = "or_default")]
    pub id: String,
    /// The name shown to people; `""` becomes the id.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Which scheduler it belongs to.
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub job_type: JobType,
    /// 1 (least) to 100; 0 means absent and becomes 50.
    #[serde(deserialize_with = "or_default")]
    pub priority: i32,
    /// Whether a plan for this job is committed whole or not at all.
    #[serde(deserialize_with = "or_default")]
    pub all_at_once: bool,
    /// Globs of the datacenters it may run in; empty becomes `["*"]`.
    #[serde(with = "nullable")]
    pub datacenters: Vec<String>,
    /// The node pool; `""` becomes `default`.
    #[serde(deserialize_with = "or_default")]
    pub node_pool: String,
    /// Conditions that every node of every group must meet.
    #[serde(with = "nullable")]
    pub constraints: Vec<Constraint>,
    /// Preferences that apply to every group.
    #[serde(with = "nullable")]
    pub affinities: Vec<Affinity>,
    /// The groups of tasks.
    #[serde(with = "nullable")]
    pub task_groups: Vec<TaskGroup>,
    /// Defaults of the groups' `update`. Canonical: only `stagger` and `max_parallel` are left.
    pub update: Option<UpdateStrategy>,
    /// Deployment over several regions.
    pub multiregion: Option<Multiregion>,
    /// Spread that applies to every group.
    #[serde(with = "nullable")]
    pub spreads: Vec<Spread>,
    /// Launch times of a periodic job.
    pub periodic: Option<PeriodicConfig>,
    /// What a dispatch of a parameterized job takes.
    pub parameterized_job: Option<ParameterizedJobConfig>,
    /// Defaults of the groups' `reschedule`. Canonical: merged into the groups and absent.
    pub reschedule: Option<ReschedulePolicy>,
    /// Defaults of the groups' `migrate`. Canonical: merged into the groups and absent.
    pub migrate: Option<MigrateStrategy>,
    /// Free metadata of all tasks; groups and tasks override it.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// What a user interface shows beside the job.
    #[serde(rename = "UI")]
    pub ui: Option<JobUi>,
    /// A secret of older clients: read, never kept ([`Job::canonicalize`] drops it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consul_token: Option<String>,
    /// A secret of older clients: read, never kept ([`Job::canonicalize`] drops it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_token: Option<String>,
    /// The Consul namespace of its services.
    #[serde(deserialize_with = "or_default")]
    pub consul_namespace: String,
    /// The Vault namespace of its secrets.
    #[serde(deserialize_with = "or_default")]
    pub vault_namespace: String,
    /// Whether an operator stopped it.
    #[serde(deserialize_with = "or_default")]
    pub stop: bool,
    /// The periodic or parameterized job that this one was launched from.
    #[serde(rename = "ParentID", deserialize_with = "or_default")]
    pub parent_id: String,
    /// Whether it was made by a dispatch.
    #[serde(deserialize_with = "or_default")]
    pub dispatched: bool,
    /// The token that makes repeated dispatches one.
    #[serde(deserialize_with = "or_default")]
    pub dispatch_idempotency_token: String,
    /// The dispatched payload: base64 of Snappy's block format, as the API carries it.
    pub payload: Option<String>,
    /// The token that registered it.
    #[serde(rename = "NomadTokenID", deserialize_with = "or_default")]
    pub nomad_token_id: String,
    /// Volatile: what the job is doing.
    #[serde(deserialize_with = "or_default")]
    pub status: JobStatus,
    /// Volatile: why.
    #[serde(deserialize_with = "or_default")]
    pub status_description: String,
    /// Volatile: whether this version was once healthy, and thus a target for automatic reverts.
    #[serde(deserialize_with = "or_default")]
    pub stable: bool,
    /// Volatile: counts the changes of the specification, from 0.
    #[serde(deserialize_with = "or_default")]
    pub version: u64,
    /// Volatile: when this version was submitted.
    #[serde(deserialize_with = "or_default")]
    pub submit_time: UnixNanos,
    /// Volatile: the index at which the job was created.
    #[serde(deserialize_with = "or_default")]
    pub create_index: u64,
    /// Volatile: the index at which anything of it last changed.
    #[serde(deserialize_with = "or_default")]
    pub modify_index: u64,
    /// Volatile: the index at which its specification last changed.
    #[serde(deserialize_with = "or_default")]
    pub job_modify_index: u64,
    /// Volatile: the tag of this version.
    pub version_tag: Option<VersionTag>,
}

impl Job {
    /// The job's key: namespace (`default` where absent) and id.
    pub fn key(&self) -> JobKey {
        let namespace = match self.namespace.as_str() {
            "" => crate::ids::DEFAULT_NAMESPACE,
            name => name,
        };
        JobKey::new(namespace, self.id.clone())
    }

    /// The group of this name.
    pub fn task_group(&self, name: &str) -> Option<&TaskGroup> {
        self.task_groups.iter().find(|group| group.name == name)
    }

    /// Whether the job is a template for launches and runs nothing itself.
    pub fn is_periodic(&self) -> bool {
        self.periodic.is_some()
    }

    /// Whether the job is a template for dispatches and runs nothing itself.
    pub fn is_parameterized(&self) -> bool {
        self.parameterized_job.is_some() && !self.dispatched
    }

    /// Whether the job is a template for launches or dispatches and runs nothing itself.
    pub fn is_template(&self) -> bool {
        self.is_periodic() || self.is_parameterized()
    }

    /// Whether a node that becomes ready gets an allocation of the job.
    pub fn runs_on_every_node(&self) -> bool {
        self.job_type.is_per_node() && !self.is_template()
    }
}

/// What a user interface shows beside the job.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobUi {
    /// Text (Markdown) about the job.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Links to related pages.
    #[serde(with = "nullable")]
    pub links: Vec<JobUiLink>,
}

/// One link of a [`JobUi`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobUiLink {
    /// The text of the link.
    #[serde(deserialize_with = "or_default")]
    pub label: String,
    /// Where it leads.
    #[serde(rename = "URL", deserialize_with = "or_default")]
    pub url: String,
}

/// A name for one version of a job; tagged versions are never collected.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VersionTag {
    /// The tag.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Why it was tagged.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// When it was tagged.
    #[serde(deserialize_with = "or_default")]
    pub tagged_time: UnixNanos,
}
