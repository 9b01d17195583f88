//! Garbage collection: the leader names what looks old enough, and what is not really over stays.

use protocol_model::{
    AllocId, Allocation, ClientStatus, DeploymentId, DeploymentStatus, DesiredStatus, EvalId, Job,
    JobKey, JobStatus, JobType, NodeId, NodeStatus,
};

use super::draft::Draft;
use crate::applied::{Collected, Outcome, Signal};
use crate::command::GcCollect;

impl Draft {
    /// Jobs first: what a forgotten job leaves behind may go with it.
    pub(crate) fn gc_collect(&mut self, command: &GcCollect) -> Outcome {
        let GcCollect {
            evals,
            allocs,
            jobs,
            deployments,
            nodes,
        } = command;
        let mut collected = Collected::default();
        for key in jobs {
            let done = self.collect_job(key);
            count(done, &mut collected.jobs, &mut collected.kept);
        }
        for id in allocs {
            let done = self.collect_alloc(*id);
            count(done, &mut collected.allocs, &mut collected.kept);
        }
        for id in evals {
            let done = self.collect_eval(*id);
            count(done, &mut collected.evals, &mut collected.kept);
        }
        for id in deployments {
            let done = self.collect_deployment(*id);
            count(done, &mut collected.deployments, &mut collected.kept);
        }
        for id in nodes {
            let done = self.collect_node(*id);
            count(done, &mut collected.nodes, &mut collected.kept);
        }
        Outcome::Collected(collected)
    }

    fn collect_job(&mut self, key: &JobKey) -> Kept {
        if !self.tables.job_is_collectable(key) {
            return Kept::Yes;
        }
        self.forget_job(key);
        Kept::No
    }

    fn collect_alloc(&mut self, id: AllocId) -> Kept {
        let Some(alloc) = self.tables.alloc(id).cloned() else {
            return Kept::Yes;
        };
        if !self.tables.alloc_is_collectable(&alloc) {
            return Kept::Yes;
        }
        self.remove_alloc(id);
        Kept::No
    }

    fn collect_eval(&mut self, id: EvalId) -> Kept {
        if !self.tables.eval_is_collectable(id) {
            return Kept::Yes;
        }
        let eval = self.tables.eval(id).cloned();
        self.remove_evals(eval.into_iter().collect());
        Kept::No
    }

    fn collect_deployment(&mut self, id: DeploymentId) -> Kept {
        if !self.tables.deployment_is_collectable(id) {
            return Kept::Yes;
        }
        let spec = self
            .tables
            .deployments
            .get(&id)
            .and_then(|record| record.spec);
        self.tables.remove_deployment(id);
        spec.into_iter().for_each(|spec| self.spec_released(spec));
        self.signal(Signal::DeploymentRemoved(id));
        Kept::No
    }

    fn collect_node(&mut self, id: NodeId) -> Kept {
        if !self.tables.node_is_collectable(id) {
            return Kept::Yes;
        }
        self.tables.remove_node(id);
        self.signal(Signal::NodeRemoved(id));
        Kept::No
    }
}

/// Whether an allocation that does not matter any more went without being asked to, and nobody that
/// is still known took its place: it was lost, or ended in an older version of `job`. A halted
/// rollout, which adds nothing, fills only such gaps, one for each number that nobody has: their
/// records are kept until the rollout is over.
pub fn left_a_gap(job: &Job, alloc: &Allocation) -> bool {
    let is_result = job.job_type.runs_to_completion() && alloc.ran_successfully();
    let ended = matches!(
        alloc.client_status,
        ClientStatus::Failed | ClientStatus::Complete
    );
    let ended = ended && !is_result && !alloc.server_terminal() && alloc.job_version != job.version;
    (ended || alloc.client_status == ClientStatus::Lost)
        && alloc.next_allocation.is_none()
        && alloc.job_create_index == job.create_index
}

/// Whether something that was named for collection stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kept {
    Yes,
    No,
}

fn count(kept: Kept, collected: &mut u64, kept_count: &mut u64) {
    match kept {
        Kept::Yes => *kept_count += 1,
        Kept::No => *collected += 1,
    }
}

/// What may be collected at all, however old it is. The leader asks the same questions before it
/// names anything.
impl crate::tables::Tables {
    /// A job that is dead, has nothing open, and that nobody wants any more: stopped, or a batch or
    /// sysbatch job that ran to its end. A service without allocations (`count = 0`, or all of them
    /// failed for good) is dead, too, and yet somebody's: it may be scaled up again. So is a
    /// template between two launches. (Nomad's rule.)
    pub fn job_is_collectable(&self, key: &JobKey) -> bool {
        let Some(job) = self.job(key) else {
            return false;
        };
        let template = job.is_template();
        let open = self
            .job_tally(key)
            .is_some_and(|tally| tally.allocs_live > 0 || tally.evals_live > 0);
        let tagged = self
            .job_versions(key)
            .any(|version| version.version_tag.is_some());
        let ends = job.job_type.runs_to_completion() && !template;
        job.status == JobStatus::Dead && !open && !tagged && (ends || job.stop)
    }

    /// An allocation that its node is done with (or that no node will ever speak of again) and that
    /// no later decision about its job needs.
    pub fn alloc_is_collectable(&self, alloc: &Allocation) -> bool {
        let silent = self
            .node(alloc.node_id)
            .is_none_or(|record| record.node.status == NodeStatus::Down);
        let over = alloc.client_terminal()
            || (alloc.server_terminal() && silent && !self.is_on_lease(alloc));
        if !over {
            return false;
        }
        let Some(job) = self.job(&alloc.job_key()) else {
            return true;
        };
        if job.stop || job.create_index != alloc.job_create_index {
            return true;
        }
        if left_a_gap(job, alloc) && self.rollout_is_open(job) {
            return false;
        }
        let alone = alloc.next_allocation.is_none();
        let per_node = matches!(job.job_type, JobType::System | JobType::Sysbatch);
        if per_node && self.node(alloc.node_id).is_none() {
            return true;
        }
        // An allocation that a drain ended counts as done.
        let drained = job.job_type.runs_to_completion() && alloc.desired_transition.ends_here();
        if alloc.desired_status != DesiredStatus::Run && !drained {
            return true;
        }
        // Wanted, and ended. Another version of a batch job runs again and a failure of an older
        // version starts nothing any more, but what a sysbatch job has run last on a node may count
        // for this version, too.
        if alloc.job_version != job.version {
            return job.job_type != JobType::Sysbatch || !alone || self.is_outdone(alloc);
        }
        // A result counts whoever took its place meanwhile; any other end is kept until somebody
        // has: how long that one waits is counted from it.
        let is_result = job.job_type.runs_to_completion() && (alloc.ran_successfully() || drained);
        !(alone || is_result)
    }

    /// An evaluation that is over and placed nothing that is still known.
    pub fn eval_is_collectable(&self, id: EvalId) -> bool {
        let Some(eval) = self.eval(id) else {
            return false;
        };
        eval.status.is_terminal() && self.allocs_by_eval(id).next().is_none()
    }

    /// Whether the group has something newer on the node of `alloc`, that runs or has run there.
    fn is_outdone(&self, alloc: &Allocation) -> bool {
        let mut on_node = self.allocs_on_node(alloc.node_id);
        on_node.any(|other| {
            other.create_index > alloc.create_index
                && !other.server_terminal()
                && other.job_create_index == alloc.job_create_index
                && other.task_group == alloc.task_group
                && other.job_id == alloc.job_id
                && other.namespace == alloc.namespace
        })
    }

    /// A deployment that is over and to which no allocation belongs, except that the failure of the
    /// version that is wanted stays: it is what keeps that version from being rolled out further.
    pub fn deployment_is_collectable(&self, id: DeploymentId) -> bool {
        let Some(deployment) = self.deployment(id) else {
            return false;
        };
        let holds_back = || {
            let job = self.job(&JobKey::new(&deployment.namespace, &deployment.job_id));
            deployment.status == DeploymentStatus::Failed
                && job.is_some_and(|job| !job.stop && self.rollout_of(job) == Some(id))
        };
        !deployment.status.is_active()
            && self.allocs_by_deployment(id).next().is_none()
            && !holds_back()
    }

    /// The newest deployment of the job's present version.
    fn rollout_of(&self, job: &Job) -> Option<DeploymentId> {
        let key = job.key();
        let ours = self.deployments_by_job(&key).filter(|deployment| {
            deployment.job_version == job.version && deployment.job_create_index == job.create_index
        });
        ours.max_by_key(|deployment| (deployment.create_index, deployment.id))
            .map(|deployment| deployment.id)
    }

    /// Whether the job's present version is not rolled out, nor given up for another one: that is
    /// under way, paused, or failed.
    fn rollout_is_open(&self, job: &Job) -> bool {
        let rollout = self.rollout_of(job).and_then(|id| self.deployment(id));
        rollout.is_some_and(|rollout| {
            rollout.status.is_active() || rollout.status == DeploymentStatus::Failed
        })
    }

    /// A node that is down and on which nothing is left alive.
    pub fn node_is_collectable(&self, id: NodeId) -> bool {
        let Some(record) = self.node(id) else {
            return false;
        };
        let is_over = |alloc: &Allocation| {
            alloc.terminal() && (alloc.client_terminal() || !self.is_on_lease(alloc))
        };
        record.node.status == NodeStatus::Down
            && self.allocs_on_node(id).all(|alloc| is_over(alloc))
    }
}
