//! The rows of the tables, where a row is more than a domain type.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use protocol_model::SessionEpoch;
use protocol_model::{
    Deployment, Incarnation, Job, JobSubmission, JobType, Node, ScalingEvent, SpecHash, UnixNanos,
};
use serde::{Deserialize, Serialize};

/// A SHA-256: all that the state knows of a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest in 32 bytes, or nothing where the length is wrong.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Four bytes tell digests apart in a log; all of them would invite comparing by eye.
        write!(
            f,
            "Digest({:02x}{:02x}{:02x}{:02x}..)",
            self.0[0], self.0[1], self.0[2], self.0[3]
        )
    }
}

/// A node, its session, and what only the state needs to know of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node as the API shows it.
    pub node: Arc<Node>,
    /// SHA-256 of its secret: another host cannot take over its id.
    pub secret_hash: Digest,
    /// Its session.
    pub session: SessionState,
    /// The log index that last changed its facts.
    pub facts_index: u64,
    /// Whether jobs have to be looked at when it becomes ready: it is new, was silent, or changed.
    pub owes_evals: bool,
    /// The log index of the last allocation reports of it. (The node object's field of that name
    /// moves with the complete report only: the object is large, and reports are many.)
    pub reported_index: u64,
    /// When it fell silent, while it is. (`status_updated_at` of the node object moves with the end
    /// of the last window, too, and leases count from the silence.) Absent also where a release
    /// wrote it that did not know this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fell_silent_at: Option<UnixNanos>,
    /// The log index at which its drain was last set or ended; 0 = never. It tells one drain from
    /// the next.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drain_index: u64,
}

fn is_zero(index: &u64) -> bool {
    *index == 0
}

/// What the state knows of a node's session. It survives silence: only the next Hello replaces it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// Its number.
    pub epoch: SessionEpoch,
    /// The nonce of the Hello that made it: the same Hello again gets the same session.
    pub nonce: [u8; 16],
    /// The node's boot.
    pub boot_id: [u8; 16],
    /// The number of the last urgent batch applied.
    pub applied_urgent_seq: u64,
    /// The number of the last typical batch applied.
    pub applied_typical_seq: u64,
    /// The log index at which its complete report was taken in; 0 = owed.
    pub synced_index: u64,
    /// How often a complete report of this session was turned away.
    pub syncs_rejected: u32,
}

/// The newest report applied to an allocation: an older one is dropped.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct ReportMark {
    /// The session it came in.
    pub epoch: SessionEpoch,
    /// Its revision within that session.
    pub revision: u64,
}

/// A job as registered last.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job, complete: version, indexes, status.
    pub job: Arc<Job>,
    /// Its specification's hash.
    pub spec: SpecHash,
    /// Per task group, how many the last evaluation left unplaced.
    pub queued: BTreeMap<String, i64>,
    /// Per task group, the newest scaling events, the newest first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scaling: BTreeMap<String, Vec<ScalingEvent>>,
    /// Of a periodic job: up to which time it was launched by its schedule. (Checkpoints before
    /// version 3 do not have it.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_launch: Option<UnixNanos>,
}

/// One remembered version of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobVersionRecord {
    /// The job as it was.
    pub job: Arc<Job>,
    /// Its specification's hash.
    pub spec: SpecHash,
    /// What it was made from, where whoever registered it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<Arc<JobSubmission>>,
}

/// How many versions of a job are remembered, the newest first (as Nomad keeps them by default).
pub const JOB_VERSIONS_MAX: usize = 6;

/// A deployment and the specification that it rolls out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeploymentRecord {
    /// The deployment as the API shows it.
    pub deployment: Arc<Deployment>,
    /// What it rolls out, where the state still knew that version when it was made.
    pub spec: Option<SpecHash>,
}

/// Counters of one job, derived from its allocations and evaluations by every change of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobTally {
    /// Allocations in all.
    pub allocs: u64,
    /// Allocations that neither side is done with.
    pub allocs_live: u64,
    /// Evaluations in all.
    pub evals: u64,
    /// Evaluations that are not over.
    pub evals_live: u64,
    /// Evaluations of these that wait for capacity.
    pub evals_blocked: u64,
}

/// One task group's allocations by client status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupTally {
    /// `pending`.
    pub starting: u64,
    /// `running`.
    pub running: u64,
    /// `complete`.
    pub complete: u64,
    /// `failed`.
    pub failed: u64,
    /// `lost`.
    pub lost: u64,
    /// `unknown`.
    pub unknown: u64,
}

/// A job's counters as the API's job summary shows them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobSummary {
    /// Per task group.
    pub groups: BTreeMap<String, GroupSummary>,
}

/// One task group's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupSummary {
    /// Still to be placed.
    pub queued: i64,
    /// Placed, by client status.
    pub counts: GroupTally,
}

/// One life of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClusterMeta {
    /// `None` before the first entry.
    pub incarnation: Option<Incarnation>,
    /// When this incarnation began.
    pub created_at: UnixNanos,
    /// The log index that began it.
    pub index: u64,
}

/// How the scheduler fills nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerAlgorithm {
    /// Few nodes, well filled.
    #[default]
    Binpack,
    /// Many nodes, evenly filled.
    Spread,
}

/// The cluster-wide settings of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerConfig {
    /// How nodes are filled.
    pub algorithm: SchedulerAlgorithm,
    /// Whether tasks may use memory beyond what is reserved for them.
    pub memory_oversubscription: bool,
    /// Whether registering and evaluating jobs is refused, except with a management token.
    pub reject_job_registration: bool,
    /// Whether the broker hands out nothing.
    pub pause_eval_broker: bool,
    /// For which kinds of job lower priorities may be evicted.
    pub preemption: PreemptionConfig,
    /// Nodes that Nomad's scheduler would look at for a job with spreads or affinities; 0 = not
    /// set. Kept for clients: this scheduler looks at every node.
    pub feasibility_limit: u32,
    /// The log index that made it.
    pub create_index: u64,
    /// The log index that last changed it.
    pub modify_index: u64,
}

/// For which kinds of job lower priorities may be evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PreemptionConfig {
    /// System jobs.
    pub system: bool,
    /// System batch jobs.
    pub sysbatch: bool,
    /// Batch jobs.
    pub batch: bool,
    /// Services.
    pub service: bool,
}

impl Default for PreemptionConfig {
    /// As Nomad: for system jobs only.
    fn default() -> Self {
        Self {
            system: true,
            sysbatch: false,
            batch: false,
            service: false,
        }
    }
}

impl PreemptionConfig {
    /// Whether jobs of this kind may evict others.
    pub fn allows(&self, job_type: JobType) -> bool {
        match job_type {
            JobType::System => self.system,
            JobType::Sysbatch => self.sysbatch,
            JobType::Batch => self.batch,
            JobType::Service => self.service,
        }
    }
}
