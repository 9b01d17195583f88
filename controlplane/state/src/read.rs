//! The questions that can be asked of a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{
    AllocId, Allocation, Deployment, DeploymentId, EvalId, Evaluation, Job, JobKey, JobSubmission,
    Node, NodeId, ScalingEvent, SpecHash, TaskGroup, UnixNanos,
};

use crate::columns::NodeColumns;
use crate::namespace::Namespace;
use crate::node_pool::NodePool;
use crate::prefix::IdPrefix;
use crate::record::{
    ClusterMeta, GroupSummary, JobSummary, JobTally, NodeRecord, ReportMark, SchedulerConfig,
};
use crate::restore::PendingRestore;
use crate::tables::{Table, Tables, signed_live};

/// The cluster as a whole.
impl Tables {
    /// The index of what was applied last: its place in the log, and what restores added to it. It
    /// never goes back.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// An operator's checkpoint that is on its way into the state.
    pub fn pending_restore(&self) -> Option<&PendingRestore> {
        self.pending_restore.as_ref()
    }

    /// The state's time: that of the newest command, never going back.
    pub fn now(&self) -> UnixNanos {
        self.now
    }

    /// The newest index at which one of `tables` changed: what a blocking query on them waits for.
    pub fn table_index(&self, tables: &[Table]) -> u64 {
        tables
            .iter()
            .map(|table| self.table_indexes[*table as usize])
            .max()
            .unwrap_or(0)
    }

    /// The cluster's incarnation and when it began.
    pub fn cluster(&self) -> &ClusterMeta {
        &self.cluster
    }

    /// The scheduler's configuration.
    pub fn scheduler_config(&self) -> &SchedulerConfig {
        &self.scheduler_config
    }

    /// All namespaces, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> + '_ {
        self.namespaces.values()
    }

    /// One namespace.
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespaces.get(name)
    }

    /// All node pools, by name.
    pub fn node_pools(&self) -> impl Iterator<Item = &Arc<NodePool>> + '_ {
        self.node_pools.values()
    }

    /// One node pool.
    pub fn node_pool(&self, name: &str) -> Option<&Arc<NodePool>> {
        self.node_pools.get(name)
    }

    /// The log index of the last bootstrap of access control; 0 = never.
    pub fn acl_bootstrap_index(&self) -> u64 {
        self.acl_bootstrap_index
    }
}

/// Jobs.
impl Tables {
    /// The job as registered last.
    pub fn job(&self, key: &JobKey) -> Option<&Arc<Job>> {
        self.jobs.get(key).map(|record| &record.job)
    }

    /// The hash of the job's current specification.
    pub fn job_spec(&self, key: &JobKey) -> Option<SpecHash> {
        self.jobs.get(key).map(|record| record.spec)
    }

    /// A remembered version of a job, the current one included.
    pub fn job_version(&self, key: &JobKey, version: u64) -> Option<&Arc<Job>> {
        self.job_versions
            .get(key)?
            .get(&version)
            .map(|record| &record.job)
    }

    /// What a remembered version of a job was made from.
    pub fn job_submission(&self, key: &JobKey, version: u64) -> Option<&Arc<JobSubmission>> {
        let record = self.job_versions.get(key)?.get(&version)?;
        record.submission.as_ref()
    }

    /// The remembered versions of a job, newest first.
    pub fn job_versions(&self, key: &JobKey) -> impl Iterator<Item = &Arc<Job>> + '_ {
        self.job_versions
            .get(key)
            .into_iter()
            .flat_map(|versions| versions.values().rev())
            .map(|record| &record.job)
    }

    /// The newest scaling events of a job's groups, the newest first.
    pub fn scaling_events(&self, key: &JobKey) -> Option<&BTreeMap<String, Vec<ScalingEvent>>> {
        self.jobs.get(key).map(|record| &record.scaling)
    }

    /// The specification with this hash, as whoever first registered it: its version and indexes
    /// may be another job version's. For one allocation's job use [`Self::job_of_alloc`].
    pub fn spec(&self, hash: SpecHash) -> Option<&Arc<Job>> {
        self.specs.get(&hash).map(|record| &record.job)
    }

    /// The specifications that jobs, their versions and allocations refer to.
    pub fn specs(&self) -> impl Iterator<Item = &Arc<Job>> + '_ {
        self.specs.values().map(|record| &record.job)
    }

    /// The group of the job version that an allocation runs.
    pub fn group_of_alloc(&self, alloc: &Allocation) -> Option<&TaskGroup> {
        self.spec(alloc.spec)?.task_group(&alloc.task_group)
    }

    /// The job that an allocation runs, with the version and create index that the allocation
    /// names. Shared with the version where that is still remembered.
    pub fn job_of_alloc(&self, alloc: &Allocation) -> Option<Arc<Job>> {
        let version = self
            .job_versions
            .get(&alloc.job_key())
            .and_then(|versions| versions.get(&alloc.job_version))
            .filter(|record| {
                record.spec == alloc.spec && record.job.create_index == alloc.job_create_index
            });
        if let Some(record) = version {
            return Some(record.job.clone());
        }
        let spec = self.spec(alloc.spec)?;
        if spec.version == alloc.job_version && spec.create_index == alloc.job_create_index {
            return Some(spec.clone());
        }
        let mut job = Job::clone(spec);
        job.version = alloc.job_version;
        job.create_index = alloc.job_create_index;
        Some(Arc::new(job))
    }

    /// All jobs, ordered by namespace and id.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobKey, &Arc<Job>)> + '_ {
        self.jobs.iter().map(|(key, record)| (key, &record.job))
    }

    /// The jobs of one namespace whose id begins with `prefix`, ordered by id.
    pub fn jobs_with_prefix<'a>(
        &'a self,
        namespace: &str,
        prefix: &str,
    ) -> impl Iterator<Item = (&'a JobKey, &'a Arc<Job>)> + 'a {
        let from = JobKey::new(namespace, prefix);
        let (namespace, prefix) = (from.namespace.clone(), from.id.clone());
        self.jobs
            .range(from..)
            .take_while(move |(key, _)| key.namespace == namespace && key.id.starts_with(&prefix))
            .map(|(key, record)| (key, &record.job))
    }

    /// A job's counters.
    pub fn job_summary(&self, key: &JobKey) -> JobSummary {
        let mut summary = JobSummary::default();
        if let Some(record) = self.jobs.get(key) {
            for group in &record.job.task_groups {
                summary
                    .groups
                    .insert(group.name.clone(), GroupSummary::default());
            }
            for (group, queued) in &record.queued {
                summary.groups.entry(group.clone()).or_default().queued = *queued;
            }
        }
        if let Some(tally) = self.alloc_tallies.get(key) {
            for (group, counts) in &tally.groups {
                summary.groups.entry(group.clone()).or_default().counts = *counts;
            }
        }
        summary
    }

    /// How many allocations and evaluations a job has, and how many of them are not over.
    /// `None` where it has neither.
    pub fn job_tally(&self, key: &JobKey) -> Option<JobTally> {
        let (allocs, evals) = (self.alloc_tallies.get(key), self.eval_tallies.get(key));
        (allocs.is_some() || evals.is_some()).then(|| JobTally {
            allocs: allocs.map_or(0, |it| it.all),
            allocs_live: allocs.map_or(0, |it| it.live),
            evals: evals.map_or(0, |it| it.all),
            evals_live: evals.map_or(0, |it| it.live),
            evals_blocked: evals.map_or(0, |it| it.blocked),
        })
    }
}

/// Evaluations. Pages of them: [`Tables::evals_within`]; those of a job: [`Tables::evals_by_job`].
impl Tables {
    /// One evaluation.
    pub fn eval(&self, id: EvalId) -> Option<&Arc<Evaluation>> {
        self.evals.get(&self.eval_slot(id)?)
    }

    /// All evaluations, oldest first.
    pub fn evals(&self) -> impl DoubleEndedIterator<Item = &Arc<Evaluation>> + '_ {
        self.evals.values()
    }

    /// Evaluations whose id begins so, by id.
    pub fn evals_with_prefix(
        &self,
        prefix: IdPrefix,
    ) -> impl Iterator<Item = &Arc<Evaluation>> + '_ {
        self.eval_slots
            .range(EvalId(prefix.low)..=EvalId(prefix.high))
            .filter_map(|(id, index)| self.evals.get(&(*index, *id)))
    }
}

/// Allocations. Their `job` is absent: see [`Tables::job_of_alloc`].
impl Tables {
    /// One allocation.
    pub fn alloc(&self, id: AllocId) -> Option<&Arc<Allocation>> {
        self.allocs.get(&id).map(|record| &record.alloc)
    }

    /// The newest report applied to an allocation; the default where there was none.
    pub fn alloc_report_mark(&self, id: AllocId) -> ReportMark {
        self.allocs
            .get(&id)
            .map(|record| record.mark)
            .unwrap_or_default()
    }

    /// The number of the root key that signs an allocation's identities; 0 = none.
    pub fn alloc_key(&self, id: AllocId) -> u32 {
        self.allocs.get(&id).map_or(0, |record| record.key)
    }

    /// How many allocations that are not over for their client have identities signed with this
    /// root key. Number 0 asks for those without a key.
    pub fn live_allocs_of_key(&self, number: u32) -> u64 {
        self.live_by_key.get(&number).copied().unwrap_or(0)
    }

    /// The allocations that are not over for their client and signed with another root key than
    /// `number`, by id. A scan of all allocations.
    pub fn live_allocs_not_of_key(&self, number: u32) -> impl Iterator<Item = (AllocId, u32)> + '_ {
        let records = self.allocs.iter();
        records.filter_map(move |(id, record)| {
            let key = signed_live(record)?;
            (key != number).then_some((*id, key))
        })
    }

    /// The numbers of the root keys that sign identities of allocations that are not over for their
    /// client; 0 stands for those without a key. A number may be that of a key that was removed.
    pub fn keys_of_live_allocs(&self) -> impl Iterator<Item = u32> + '_ {
        self.live_by_key.keys().copied()
    }

    /// Whether placements are stamped with the root key that signs their identities.
    pub fn identities_begun(&self) -> bool {
        self.access.identities_begun
    }

    /// All allocations, by id.
    pub fn allocs(&self) -> impl Iterator<Item = &Arc<Allocation>> + '_ {
        self.allocs.values().map(|record| &record.alloc)
    }

    /// Allocations whose id begins so.
    pub fn allocs_with_prefix(
        &self,
        prefix: IdPrefix,
    ) -> impl Iterator<Item = &Arc<Allocation>> + '_ {
        self.allocs
            .range(AllocId(prefix.low)..=AllocId(prefix.high))
            .map(|(_, record)| &record.alloc)
    }

    /// A job's allocations, by id: those of an earlier job of the same name too.
    pub fn allocs_by_job(&self, key: &JobKey) -> impl Iterator<Item = &Arc<Allocation>> + '_ {
        self.resolve(self.allocs_by_job.get(key))
    }

    /// The index at which an allocation of a job last changed, came or went: what a blocking query
    /// on them waits for. Never below what it is: a checkpoint does not keep it, and its reader
    /// takes the index that it was written at; an operator's restore changes all of them. While a
    /// job has no allocation nobody knows whether it had one, and it is that of all allocations.
    pub fn job_allocs_index(&self, key: &JobKey) -> u64 {
        match self.alloc_tallies.get(key) {
            None => self.table_index(&[Table::Allocs]),
            Some(tally) => tally.moved.max(self.cluster.index),
        }
    }

    /// The same of one allocation; that of all where it is not there.
    pub fn alloc_index(&self, id: AllocId) -> u64 {
        match self.alloc(id) {
            Some(alloc) => alloc.modify_index.max(self.cluster.index),
            None => self.table_index(&[Table::Allocs]),
        }
    }

    /// A node's allocations, by id. `alloc_modify_index` is the version that the node's watch
    /// follows.
    pub fn allocs_on_node(&self, node: NodeId) -> impl Iterator<Item = &Arc<Allocation>> + '_ {
        self.resolve(self.allocs_by_node.get(&node))
    }

    /// The allocations that an evaluation placed, by id.
    pub fn allocs_by_eval(&self, eval: EvalId) -> impl Iterator<Item = &Arc<Allocation>> + '_ {
        self.resolve(self.allocs_by_eval.get(&eval))
    }

    /// A deployment's allocations, by id.
    pub fn allocs_by_deployment(
        &self,
        deployment: DeploymentId,
    ) -> impl Iterator<Item = &Arc<Allocation>> + '_ {
        self.resolve(self.allocs_by_deployment.get(&deployment))
    }

    fn resolve<'a>(
        &'a self,
        ids: Option<&'a imbl::OrdSet<AllocId>>,
    ) -> impl Iterator<Item = &'a Arc<Allocation>> + 'a {
        ids.into_iter().flatten().filter_map(|id| self.alloc(*id))
    }
}

/// Deployments.
impl Tables {
    /// One deployment.
    pub fn deployment(&self, id: DeploymentId) -> Option<&Arc<Deployment>> {
        self.deployments.get(&id).map(|record| &record.deployment)
    }

    /// All deployments, by id.
    pub fn deployments(&self) -> impl Iterator<Item = &Arc<Deployment>> + '_ {
        self.deployments.values().map(|record| &record.deployment)
    }

    /// Deployments whose id begins so.
    pub fn deployments_with_prefix(
        &self,
        prefix: IdPrefix,
    ) -> impl Iterator<Item = &Arc<Deployment>> + '_ {
        self.deployments
            .range(DeploymentId(prefix.low)..=DeploymentId(prefix.high))
            .map(|(_, record)| &record.deployment)
    }

    /// A job's deployments, by id.
    pub fn deployments_by_job(&self, key: &JobKey) -> impl Iterator<Item = &Arc<Deployment>> + '_ {
        let ids = self.deployments_by_job.get(key);
        ids.into_iter()
            .flatten()
            .filter_map(|id| self.deployment(*id))
    }

    /// A job's newest deployment.
    pub fn latest_deployment(&self, key: &JobKey) -> Option<&Arc<Deployment>> {
        self.deployments_by_job(key)
            .max_by_key(|deployment| (deployment.create_index, deployment.id))
    }
}

/// Nodes.
impl Tables {
    /// One node with its session.
    pub fn node(&self, id: NodeId) -> Option<&Arc<NodeRecord>> {
        self.nodes.get(&id)
    }

    /// All nodes with their sessions, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<NodeRecord>> + '_ {
        self.nodes.values()
    }

    /// Nodes whose id begins so.
    pub fn nodes_with_prefix(&self, prefix: IdPrefix) -> impl Iterator<Item = &Arc<Node>> + '_ {
        self.nodes
            .range(NodeId(prefix.low)..=NodeId(prefix.high))
            .map(|(_, record)| &record.node)
    }

    /// What the scheduler needs of every node, side by side.
    pub fn node_columns(&self) -> &NodeColumns {
        &self.columns
    }
}
