//! The tables and everything derived from them. Every change of a row goes through here, so that
//! the indexes, the counters, the references to specifications and the node columns cannot be
//! forgotten by a transition.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use protocol_model::{
    AllocId, Allocation, ClientStatus, DeploymentId, EvalId, Evaluation, Job, JobKey, NodeId,
    SpecHash, UnixNanos,
};

use crate::columns::NodeColumns;
use crate::record::{
    AclToken, ClusterMeta, DeploymentRecord, GroupTally, JobRecord, JobTally, JobVersionRecord,
    Namespace, NodeRecord, ReportMark, SchedulerConfig,
};
use crate::restore::PendingRestore;
use crate::usage::Usage;

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
    /// Access tokens.
    AclTokens,
    /// The scheduler's configuration.
    SchedulerConfig,
    /// The cluster's incarnation.
    Cluster,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Nodes,
        Self::Jobs,
        Self::JobVersions,
        Self::JobSummaries,
        Self::Evals,
        Self::Allocs,
        Self::Deployments,
        Self::Namespaces,
        Self::AclTokens,
        Self::SchedulerConfig,
        Self::Cluster,
    ];
}

/// An allocation and the newest report applied to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AllocRecord {
    pub(crate) alloc: Arc<Allocation>,
    pub(crate) mark: ReportMark,
}

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
    pub(crate) table_indexes: [u64; Table::ALL.len()],

    pub(crate) cluster: ClusterMeta,
    pub(crate) scheduler_config: SchedulerConfig,
    pub(crate) acl_bootstrap_index: u64,
    pub(crate) pending_restore: Option<PendingRestore>,

    pub(crate) nodes: OrdMap<NodeId, Arc<NodeRecord>>,
    pub(crate) jobs: OrdMap<JobKey, Arc<JobRecord>>,
    pub(crate) job_versions: OrdMap<JobKey, OrdMap<u64, JobVersionRecord>>,
    pub(crate) evals: OrdMap<EvalId, Arc<Evaluation>>,
    pub(crate) allocs: OrdMap<AllocId, AllocRecord>,
    pub(crate) deployments: OrdMap<DeploymentId, DeploymentRecord>,
    pub(crate) namespaces: OrdMap<String, Arc<Namespace>>,
    pub(crate) acl_tokens: OrdMap<String, Arc<AclToken>>,

    // Derived. Rebuilt on restore, never written to a checkpoint (specifications are written: their
    // references are what is derived).
    pub(crate) specs: OrdMap<SpecHash, SpecRecord>,
    /// Jobs that run once on each node: a node that comes needs exactly these.
    pub(crate) per_node_jobs: OrdSet<JobKey>,
    pub(crate) tallies: OrdMap<JobKey, Arc<JobTally>>,
    pub(crate) evals_by_job: OrdMap<JobKey, OrdSet<EvalId>>,
    pub(crate) allocs_by_job: OrdMap<JobKey, OrdSet<AllocId>>,
    pub(crate) allocs_by_node: OrdMap<NodeId, OrdSet<AllocId>>,
    pub(crate) allocs_by_eval: OrdMap<EvalId, OrdSet<AllocId>>,
    pub(crate) allocs_by_deployment: OrdMap<DeploymentId, OrdSet<AllocId>>,
    pub(crate) deployments_by_job: OrdMap<JobKey, OrdSet<DeploymentId>>,
    pub(crate) columns: NodeColumns,
}

fn index_insert<K: Ord + Clone, V: Ord + Clone>(
    index: &mut OrdMap<K, OrdSet<V>>,
    key: K,
    value: V,
) {
    index.entry(key).or_default().insert(value);
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

    // --- jobs ---

    pub(crate) fn put_job(&mut self, key: JobKey, record: JobRecord) {
        self.touch(Table::Jobs);
        if record.job.job_type.is_per_node() {
            self.per_node_jobs.insert(key.clone());
        } else {
            self.per_node_jobs.remove(&key);
        }
        self.jobs.insert(key, Arc::new(record));
    }

    pub(crate) fn remove_job(&mut self, key: &JobKey) {
        self.touch(Table::Jobs);
        self.touch(Table::JobSummaries);
        self.per_node_jobs.remove(key);
        self.jobs.remove(key);
        if let Some(versions) = self.job_versions.remove(key) {
            self.touch(Table::JobVersions);
            versions
                .iter()
                .for_each(|(_, version)| self.release_spec(version.spec));
        }
    }

    pub(crate) fn put_job_version(&mut self, key: &JobKey, record: JobVersionRecord) {
        self.touch(Table::JobVersions);
        self.acquire_spec(record.spec);
        let versions = self.job_versions.entry(key.clone()).or_default();
        let replaced = versions.insert(record.job.version, record);
        if let Some(replaced) = replaced {
            self.release_spec(replaced.spec);
        }
    }

    pub(crate) fn remove_job_version(&mut self, key: &JobKey, version: u64) {
        let Some(versions) = self.job_versions.get_mut(key) else {
            return;
        };
        let Some(removed) = versions.remove(&version) else {
            return;
        };
        if versions.is_empty() {
            self.job_versions.remove(key);
        }
        self.touch(Table::JobVersions);
        self.release_spec(removed.spec);
    }

    fn tally(&mut self, key: &JobKey, change: impl FnOnce(&mut JobTally)) {
        self.touch(Table::JobSummaries);
        let tally = self.tallies.entry(key.clone()).or_default();
        let tally = Arc::make_mut(tally);
        change(tally);
        if tally.is_empty() {
            self.tallies.remove(key);
        }
    }

    // --- evaluations ---

    pub(crate) fn put_eval(&mut self, eval: &Arc<Evaluation>) {
        self.touch(Table::Evals);
        let key = eval.job_key();
        if let Some(before) = self.evals.insert(eval.id, eval.clone()) {
            let was = !before.status.is_terminal();
            let is = !eval.status.is_terminal();
            if was != is {
                self.tally(&key, |tally| match is {
                    true => tally.evals_live += 1,
                    false => tally.evals_live = tally.evals_live.saturating_sub(1),
                });
            }
            return;
        }
        index_insert(&mut self.evals_by_job, key.clone(), eval.id);
        self.tally(&key, |tally| {
            tally.evals += 1;
            tally.evals_live += u64::from(!eval.status.is_terminal());
        });
    }

    pub(crate) fn remove_eval(&mut self, id: EvalId) {
        let Some(eval) = self.evals.remove(&id) else {
            return;
        };
        self.touch(Table::Evals);
        let key = eval.job_key();
        index_remove(&mut self.evals_by_job, &key, &id);
        self.tally(&key, |tally| {
            tally.evals = tally.evals.saturating_sub(1);
            tally.evals_live = tally
                .evals_live
                .saturating_sub(u64::from(!eval.status.is_terminal()));
        });
    }

    // --- allocations ---

    pub(crate) fn put_alloc(&mut self, record: AllocRecord) {
        self.touch(Table::Allocs);
        let alloc = record.alloc.clone();
        let before = self.allocs.insert(alloc.id, record);
        if let Some(before) = before {
            self.unlink_alloc(&before.alloc, Some(&alloc));
            self.link_alloc(&alloc, Some(&before.alloc));
            self.release_spec(before.alloc.spec);
        } else {
            self.link_alloc(&alloc, None);
        }
    }

    pub(crate) fn remove_alloc(&mut self, id: AllocId) {
        let Some(record) = self.allocs.remove(&id) else {
            return;
        };
        self.touch(Table::Allocs);
        self.unlink_alloc(&record.alloc, None);
        self.release_spec(record.alloc.spec);
    }

    /// Enters an allocation into what is derived. `before` is what it was: the indexes over what
    /// never changes (job, node, evaluation of a kept one) are left alone.
    fn link_alloc(&mut self, alloc: &Allocation, before: Option<&Arc<Allocation>>) {
        let key = alloc.job_key();
        self.acquire_spec(alloc.spec);
        if before.is_none() {
            index_insert(&mut self.allocs_by_job, key.clone(), alloc.id);
            index_insert(&mut self.allocs_by_node, alloc.node_id, alloc.id);
        }
        if before.is_none_or(|before| before.eval_id != alloc.eval_id) {
            index_insert(&mut self.allocs_by_eval, alloc.eval_id, alloc.id);
        }
        if let Some(deployment) = alloc.deployment_id
            && before.is_none_or(|before| before.deployment_id != alloc.deployment_id)
        {
            index_insert(&mut self.allocs_by_deployment, deployment, alloc.id);
        }
        if before.is_none_or(|before| !same_counts(before, alloc)) {
            let live = !alloc.terminal();
            self.tally(&key, |tally| {
                tally.allocs += 1;
                tally.allocs_live += u64::from(live);
                let group = tally.groups.entry(alloc.task_group.clone()).or_default();
                *group.counter(alloc.client_status) += 1;
            });
        }
        if !alloc.terminal() && before.is_none_or(|before| !same_usage(before, alloc)) {
            self.columns
                .add_usage(alloc.node_id, &Usage::of(&alloc.allocated_resources));
        }
    }

    /// The reverse of [`Self::link_alloc`]; `after` is what it becomes.
    fn unlink_alloc(&mut self, alloc: &Allocation, after: Option<&Arc<Allocation>>) {
        let key = alloc.job_key();
        if after.is_none() {
            index_remove(&mut self.allocs_by_job, &key, &alloc.id);
            index_remove(&mut self.allocs_by_node, &alloc.node_id, &alloc.id);
        }
        if after.is_none_or(|after| after.eval_id != alloc.eval_id) {
            index_remove(&mut self.allocs_by_eval, &alloc.eval_id, &alloc.id);
        }
        if let Some(deployment) = alloc.deployment_id
            && after.is_none_or(|after| after.deployment_id != alloc.deployment_id)
        {
            index_remove(&mut self.allocs_by_deployment, &deployment, &alloc.id);
        }
        if after.is_none_or(|after| !same_counts(after, alloc)) {
            let live = !alloc.terminal();
            self.tally(&key, |tally| tally.forget(alloc, live));
        }
        if !alloc.terminal() && after.is_none_or(|after| !same_usage(after, alloc)) {
            self.columns
                .subtract_usage(alloc.node_id, &Usage::of(&alloc.allocated_resources));
        }
    }

    // --- deployments ---

    pub(crate) fn put_deployment(&mut self, record: DeploymentRecord) {
        self.touch(Table::Deployments);
        let id = record.deployment.id;
        index_insert(
            &mut self.deployments_by_job,
            record.deployment.job_key(),
            id,
        );
        if let Some(spec) = record.spec {
            self.acquire_spec(spec);
        }
        if let Some(spec) = self
            .deployments
            .insert(id, record)
            .and_then(|before| before.spec)
        {
            self.release_spec(spec);
        }
    }

    pub(crate) fn remove_deployment(&mut self, id: DeploymentId) {
        let Some(record) = self.deployments.remove(&id) else {
            return;
        };
        self.touch(Table::Deployments);
        index_remove(
            &mut self.deployments_by_job,
            &record.deployment.job_key(),
            &id,
        );
        if let Some(spec) = record.spec {
            self.release_spec(spec);
        }
    }

    // --- nodes ---

    pub(crate) fn put_node(&mut self, record: NodeRecord) {
        self.touch(Table::Nodes);
        let mut columns = std::mem::take(&mut self.columns);
        columns.put_node(&record.node, || self.usage_of_node(record.node.id));
        self.columns = columns;
        self.nodes.insert(record.node.id, Arc::new(record));
    }

    /// Changes what no reader of the API sees of a node (its session's counters): the table's index
    /// stays, so that no blocking query wakes.
    pub(crate) fn put_node_quietly(&mut self, record: NodeRecord) {
        self.nodes.insert(record.node.id, Arc::new(record));
    }

    pub(crate) fn remove_node(&mut self, id: NodeId) {
        if self.nodes.remove(&id).is_some() {
            self.touch(Table::Nodes);
            self.columns.remove_node(id);
        }
    }

    /// What the live allocations of a node take, from the allocations themselves.
    pub(crate) fn usage_of_node(&self, node: NodeId) -> (Usage, u32) {
        let mut used = Usage::default();
        let mut live = 0;
        for alloc in self.allocs_on_node(node).filter(|alloc| !alloc.terminal()) {
            used.add(&Usage::of(&alloc.allocated_resources));
            live += 1;
        }
        (used, live)
    }
}

/// Whether two states of one allocation count the same in its job's tally.
fn same_counts(before: &Allocation, after: &Allocation) -> bool {
    before.client_status == after.client_status && before.terminal() == after.terminal()
}

/// Whether two states of one allocation take the same of its node.
fn same_usage(before: &Allocation, after: &Allocation) -> bool {
    before.terminal() == after.terminal() && before.allocated_resources == after.allocated_resources
}

impl GroupTally {
    /// The counter of one client status.
    pub(crate) fn counter(&mut self, status: ClientStatus) -> &mut u64 {
        match status {
            ClientStatus::Pending => &mut self.starting,
            ClientStatus::Running => &mut self.running,
            ClientStatus::Complete => &mut self.complete,
            ClientStatus::Failed => &mut self.failed,
            ClientStatus::Lost => &mut self.lost,
            ClientStatus::Unknown => &mut self.unknown,
        }
    }
}

impl JobTally {
    fn forget(&mut self, alloc: &Allocation, live: bool) {
        self.allocs = self.allocs.saturating_sub(1);
        self.allocs_live = self.allocs_live.saturating_sub(u64::from(live));
        let groups: &mut BTreeMap<String, GroupTally> = &mut self.groups;
        if let Some(group) = groups.get_mut(&alloc.task_group) {
            let counter = group.counter(alloc.client_status);
            *counter = counter.saturating_sub(1);
            if *group == GroupTally::default() {
                groups.remove(&alloc.task_group);
            }
        }
    }
}
