//! The tables and everything derived from them. Every change of a row goes through here, so that
//! the indexes, the counters, the references to specifications and the node columns cannot be
//! forgotten by a transition.

mod access;
mod allocs;
mod children;
mod evals;
mod jobs;
mod nodes;
mod pools;
mod variables;

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use protocol_model::{
    AllocId, Allocation, DeploymentId, EvalId, Evaluation, Job, JobKey, NodeId, SpecHash, UnixNanos,
};

use crate::columns::NodeColumns;
use crate::namespace::Namespace;
use crate::node_pool::NodePool;
use crate::record::{
    ClusterMeta, DeploymentRecord, JobRecord, JobVersionRecord, NodeRecord, ReportMark,
    SchedulerConfig,
};
use crate::restore::PendingRestore;
pub(crate) use access::AccessTables;
pub use access::KeptPolicies;
pub(crate) use allocs::{AllocTally, signed_live};
pub use children::Children;
pub(crate) use children::parent_of;
pub(crate) use evals::{EvalTally, slot_of};
pub(crate) use variables::VariableTables;
pub use variables::VariableTally;

/// The tables that readers can wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Table {
    /// Nodes.
    Nodes,
    /// Jobs.
    Jobs,
    /// Earlier versions of jobs.
    JobVersions,
    /// Counters of jobs.
    JobSummaries,
    /// Evaluations.
    Evals,
    /// Allocations.
    Allocs,
    /// Deployments.
    Deployments,
    /// Namespaces.
    Namespaces,
    /// Node pools.
    NodePools,
    /// Access tokens.
    AclTokens,
    /// Policies.
    AclPolicies,
    /// Roles.
    AclRoles,
    /// Auth methods.
    AclAuthMethods,
    /// Binding rules.
    AclBindingRules,
    /// One-time tokens.
    OneTimeTokens,
    /// Root keys. That one seals something is no change.
    RootKeys,
    /// Variables. That one is sealed with another key is no change.
    Variables,
    /// The scheduler's configuration.
    SchedulerConfig,
    /// The cluster's incarnation.
    Cluster,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Nodes,
        Self::Jobs,
        Self::JobVersions,
        Self::JobSummaries,
        Self::Evals,
        Self::Allocs,
        Self::Deployments,
        Self::Namespaces,
        Self::NodePools,
        Self::AclTokens,
        Self::AclPolicies,
        Self::AclRoles,
        Self::AclAuthMethods,
        Self::AclBindingRules,
        Self::OneTimeTokens,
        Self::RootKeys,
        Self::Variables,
        Self::SchedulerConfig,
        Self::Cluster,
    ];
}

/// An allocation and the newest report applied to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AllocRecord {
    pub(crate) alloc: Arc<Allocation>,
    pub(crate) mark: ReportMark,
    /// The number of the root key that signs its identities; 0 = none.
    pub(crate) key: u32,
}

/// An evaluation's place in its table: its create index, then its id.
pub type EvalSlot = (u64, EvalId);

/// A specification and how many rows refer to it.
#[derive(Clone, Debug)]
pub(crate) struct SpecRecord {
    pub(crate) job: Arc<Job>,
    pub(crate) references: u64,
}

/// The whole state at one index. Cloning costs a few reference counts: that is a snapshot.
///
/// Its public methods (in `read.rs`) only read.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub(crate) index: u64,
    /// What restores added to the log's index: a restored state goes on above every index that it
    /// or the cluster's readers have seen.
    pub(crate) log_offset: u64,
    pub(crate) now: UnixNanos,
    /// The version of checkpoints that the commands so far need; 0 before the first one.
    pub(crate) checkpoint_version: u32,
    pub(crate) table_indexes: [u64; Table::ALL.len()],

    pub(crate) cluster: ClusterMeta,
    pub(crate) scheduler_config: SchedulerConfig,
    pub(crate) acl_bootstrap_index: u64,
    pub(crate) pending_restore: Option<PendingRestore>,

    pub(crate) nodes: OrdMap<NodeId, Arc<NodeRecord>>,
    pub(crate) jobs: OrdMap<JobKey, Arc<JobRecord>>,
    pub(crate) job_versions: OrdMap<JobKey, OrdMap<u64, JobVersionRecord>>,
    /// In the order in which they were made: a page of a list, and of a deletion, is a few
    /// neighbouring leaves.
    pub(crate) evals: OrdMap<EvalSlot, Arc<Evaluation>>,
    pub(crate) allocs: OrdMap<AllocId, AllocRecord>,
    pub(crate) deployments: OrdMap<DeploymentId, DeploymentRecord>,
    pub(crate) namespaces: OrdMap<String, Arc<Namespace>>,
    pub(crate) node_pools: OrdMap<String, Arc<NodePool>>,
    /// With what is derived from it.
    pub(crate) access: AccessTables,
    /// With what is derived from it.
    pub(crate) variables: VariableTables,

    // Derived. Rebuilt on restore, never written to a checkpoint (specifications are written: their
    // references are what is derived).
    pub(crate) specs: OrdMap<SpecHash, SpecRecord>,
    /// Jobs that run once on each node: a node that comes needs exactly these.
    pub(crate) per_node_jobs: OrdSet<JobKey>,
    /// Of each job that has allocations.
    pub(crate) alloc_tallies: OrdMap<JobKey, Arc<AllocTally>>,
    /// Of each job that has evaluations. A transition that touches many jobs copies most leaves:
    /// keys are shared, because a key is two texts, and counters are plain values.
    pub(crate) eval_tallies: OrdMap<Arc<JobKey>, EvalTally>,
    /// The number that the newest row of `eval_tallies` has.
    pub(crate) eval_jobs_numbered: u64,
    /// The create index of each evaluation: its place in `evals`.
    pub(crate) eval_slots: OrdMap<EvalId, u64>,
    /// By the number of the job's tally. One flat set of plain values: neighbours in `evals` are of
    /// many jobs, so that a deletion copies a leaf of this set per row.
    pub(crate) evals_by_job: OrdSet<(u64, EvalSlot)>,
    /// Of each template that has children.
    pub(crate) children: OrdMap<JobKey, Children>,
    pub(crate) allocs_by_job: OrdMap<JobKey, OrdSet<AllocId>>,
    pub(crate) allocs_by_node: OrdMap<NodeId, OrdSet<AllocId>>,
    pub(crate) allocs_by_eval: OrdMap<EvalId, OrdSet<AllocId>>,
    pub(crate) allocs_by_deployment: OrdMap<DeploymentId, OrdSet<AllocId>>,
    /// By the number of the root key that signs their identities: how many allocations are not
    /// over for their client. Key 0 counts those without one.
    pub(crate) live_by_key: OrdMap<u32, u64>,
    pub(crate) deployments_by_job: OrdMap<JobKey, OrdSet<DeploymentId>>,
    pub(crate) columns: NodeColumns,
}

fn index_insert<K: Ord + Clone, V: Ord + Clone>(
    index: &mut OrdMap<K, OrdSet<V>>,
    key: &K,
    value: V,
) {
    match index.get_mut(key) {
        Some(values) => {
            values.insert(value);
        }
        None => {
            index.insert(key.clone(), OrdSet::unit(value));
        }
    }
}

fn index_remove<K: Ord + Clone, V: Ord + Clone>(
    index: &mut OrdMap<K, OrdSet<V>>,
    key: &K,
    value: &V,
) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}

impl Tables {
    /// Notes that `table` changed at the index being applied.
    pub(crate) fn touch(&mut self, table: Table) {
        self.table_indexes[table as usize] = self.index;
    }

    // --- specifications ---

    /// Makes a specification known. It is collected as soon as a last reference to it goes, so the
    /// row that refers to it is put right after.
    pub(crate) fn put_spec(&mut self, hash: SpecHash, job: &Arc<Job>) {
        if !self.specs.contains_key(&hash) {
            self.specs.insert(
                hash,
                SpecRecord {
                    job: job.clone(),
                    references: 0,
                },
            );
        }
    }

    fn acquire_spec(&mut self, hash: SpecHash) {
        if let Some(spec) = self.specs.get_mut(&hash) {
            spec.references += 1;
        }
    }

    fn release_spec(&mut self, hash: SpecHash) {
        let Some(spec) = self.specs.get_mut(&hash) else {
            return;
        };
        spec.references = spec.references.saturating_sub(1);
        if spec.references == 0 {
            self.specs.remove(&hash);
        }
    }
}
