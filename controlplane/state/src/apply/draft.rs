//! A transition in the making: the tables as they are becoming, and what has to be told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{
    AllocId, Allocation, DeploymentId, EvalId, EvalStatus, Evaluation, Job, JobKey, JobStatus,
    JobType, NodeId, SpecHash, UnixNanos,
};
use uuid::Uuid;

use crate::applied::Signal;
use crate::record::{JobRecord, JobTally, ReportMark};
use crate::tables::{AllocRecord, Table, Tables};

/// See the module.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(super) tables: Tables,
    pub(super) index: u64,
    pub(super) now: UnixNanos,
    seed: Uuid,
    ids_drawn: u64,
    signals: Vec<Signal>,
    /// Jobs whose status has to be derived again.
    jobs_touched: BTreeSet<JobKey>,
    /// Nodes with more room than before.
    /// Since when whoever looked does not know of the room.
    freed: BTreeMap<NodeId, UnixNanos>,
    /// Allocations whose wanted state changed, per node.
    desired: BTreeMap<NodeId, BTreeSet<AllocId>>,
    /// Specifications that may have lost their last reference.
    specs_released: BTreeSet<SpecHash>,
}

/// Whether a change of an allocation is one that its node is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AllocTouch {
    /// What is wanted of it changed: its version rises, the node's watch carries it.
    Desired,
    /// Only what is known of it changed.
    Known,
}

impl Draft {
    pub(crate) fn new(mut tables: Tables, index: u64, now: UnixNanos, seed: [u8; 16]) -> Self {
        tables.index = index;
        tables.now = now;
        if tables
            .pending_restore
            .as_ref()
            .is_some_and(|pending| pending.is_over(now))
        {
            tables.pending_restore = None;
        }
        Self {
            tables,
            index,
            now,
            seed: Uuid::from_bytes(seed),
            ids_drawn: 0,
            signals: Vec::new(),
            jobs_touched: BTreeSet::new(),
            freed: BTreeMap::new(),
            desired: BTreeMap::new(),
            specs_released: BTreeSet::new(),
        }
    }

    /// Derives what is left to derive and hands everything over.
    pub(crate) fn finish(mut self) -> (Tables, Vec<Signal>) {
        for key in std::mem::take(&mut self.jobs_touched) {
            self.derive_job_status(&key);
        }
        for (node, allocs) in std::mem::take(&mut self.desired) {
            let allocs = allocs.into_iter().collect();
            self.signals.push(Signal::AllocsDesired { node, allocs });
        }
        for (node, since) in std::mem::take(&mut self.freed) {
            let Some(record) = self.tables.node(node) else {
                continue;
            };
            let class: Arc<str> = record.node.computed_class.as_str().into();
            self.signals
                .push(Signal::CapacityFreed { node, class, since });
        }
        for spec in std::mem::take(&mut self.specs_released) {
            if self.tables.spec(spec).is_none() {
                self.signals.push(Signal::SpecCollected(spec));
            }
        }
        (self.tables, self.signals)
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.signals.push(signal);
    }

    /// A node may be placed on, or has more room, than before.
    pub(super) fn capacity_freed(&mut self, node: NodeId) {
        self.freed.insert(node, UnixNanos::ZERO);
    }

    /// A node may be placed on as before, after it could not be since then.
    pub(super) fn capacity_back(&mut self, node: NodeId, since: UnixNanos) {
        self.freed.entry(node).or_insert(since);
    }

    /// A new id: a function of the command's seed, its index, and how many were drawn.
    fn draw_id(&mut self) -> Uuid {
        self.ids_drawn += 1;
        let mut name = [0; 16];
        name[..8].copy_from_slice(&self.index.to_be_bytes());
        name[8..].copy_from_slice(&self.ids_drawn.to_be_bytes());
        Uuid::new_v5(&self.seed, &name)
    }

    /// A new evaluation's id.
    pub(super) fn draw_eval_id(&mut self) -> EvalId {
        loop {
            let id = EvalId(self.draw_id());
            if self.tables.eval(id).is_none() {
                return id;
            }
        }
    }

    /// A new deployment's id.
    pub(super) fn draw_deployment_id(&mut self) -> DeploymentId {
        loop {
            let id = DeploymentId(self.draw_id());
            if self.tables.deployment(id).is_none() {
                return id;
            }
        }
    }

    // --- rows ---

    /// Puts a changed or new allocation, with its indexes and time, and answers it as it is now. A
    /// new one is stamped with the root key that is active, once identities have begun.
    pub(super) fn put_alloc(&mut self, alloc: Allocation, touch: AllocTouch) -> Arc<Allocation> {
        let key = match self.tables.alloc(alloc.id) {
            Some(_) => self.tables.alloc_key(alloc.id),
            None => self.tables.stamping_key(),
        };
        self.put_alloc_signed(alloc, touch, key)
    }

    /// As [`Self::put_alloc`], with the number of the root key that signs its identities.
    pub(super) fn put_alloc_signed(
        &mut self,
        mut alloc: Allocation,
        touch: AllocTouch,
        root_key: u32,
    ) -> Arc<Allocation> {
        let before = self.tables.alloc(alloc.id).cloned();
        alloc.job = None;
        alloc.modify_index = self.index;
        alloc.modify_time = self.now;
        if before.is_none() {
            alloc.create_index = self.index;
            alloc.create_time = self.now;
        }
        if touch == AllocTouch::Desired {
            alloc.alloc_modify_index = self.index;
            self.desired
                .entry(alloc.node_id)
                .or_default()
                .insert(alloc.id);
        }
        let key = alloc.job_key();
        if let Some(before) = &before {
            if before.holds_room() && !alloc.holds_room() {
                self.capacity_freed(alloc.node_id);
            }
            if before.client_status != alloc.client_status
                || before.deployment_status != alloc.deployment_status
            {
                self.signals.push(Signal::AllocReported {
                    alloc: alloc.id,
                    job: key.clone(),
                    deployment: alloc.deployment_id,
                });
            }
            self.specs_released.insert(before.spec);
        }
        self.count_in_deployment(before.as_deref(), &alloc);
        let mark = self.tables.alloc_report_mark(alloc.id);
        let alloc = Arc::new(alloc);
        self.tables.put_alloc(AllocRecord {
            alloc: Arc::clone(&alloc),
            mark,
            key: root_key,
        });
        self.jobs_touched.insert(key);
        alloc
    }

    /// Notes the newest report applied to an allocation.
    pub(super) fn put_mark(&mut self, id: AllocId, mark: ReportMark) {
        if let Some(record) = self.tables.allocs.get_mut(&id) {
            record.mark = mark;
        }
    }

    pub(super) fn remove_alloc(&mut self, id: AllocId) {
        let Some(alloc) = self.tables.alloc(id).cloned() else {
            return;
        };
        self.tables.remove_alloc(id);
        if alloc.holds_room() {
            self.capacity_freed(alloc.node_id);
        }
        self.desired.entry(alloc.node_id).or_default().insert(id);
        self.specs_released.insert(alloc.spec);
        self.jobs_touched.insert(alloc.job_key());
    }

    /// Puts an evaluation, with its indexes and time, and what follows from it.
    pub(super) fn put_eval(&mut self, mut eval: Evaluation) {
        let before = self.tables.eval(eval.id).cloned();
        match &before {
            Some(before) => {
                eval.create_index = before.create_index;
                eval.create_time = before.create_time;
            }
            None => {
                eval.create_index = self.index;
                eval.create_time = self.now;
            }
        }
        eval.modify_index = self.index;
        eval.modify_time = self.now;
        let key = eval.job_key();
        self.note_queued(&key, &eval);
        let eval = Arc::new(eval);
        self.tables.put_eval(&eval);
        self.jobs_touched.insert(key.clone());
        self.signals.push(match eval.status {
            EvalStatus::Pending => Signal::EvalPending(eval.clone()),
            EvalStatus::Blocked => Signal::EvalBlocked(eval.clone()),
            EvalStatus::Complete | EvalStatus::Failed | EvalStatus::Cancelled => {
                Signal::EvalEnded {
                    id: eval.id,
                    job: key.clone(),
                    status: eval.status,
                }
            }
        });
        if eval.status == EvalStatus::Complete && eval.failed_tg_allocs.is_empty() {
            self.cancel_blocked(&key, &eval);
        }
    }

    /// Everything of the job was placed: what still waits for capacity waits for nothing.
    fn cancel_blocked(&mut self, key: &JobKey, completed: &Evaluation) {
        // As a rule nothing does, and a job that is looked at often has many evaluations.
        if self
            .tables
            .job_tally(key)
            .is_none_or(|tally| tally.evals_blocked == 0)
        {
            return;
        }
        let blocked: Vec<Arc<Evaluation>> = self
            .tables
            .evals_by_job(key)
            .filter(|eval| eval.status == EvalStatus::Blocked && eval.id != completed.id)
            .cloned()
            .collect();
        for eval in blocked {
            let mut eval = Evaluation::clone(&eval);
            eval.status = EvalStatus::Cancelled;
            eval.status_description = format!("evaluation {} successful", completed.id);
            self.put_eval(eval);
        }
    }

    /// Puts a job whose specification did not change: `modify_index` alone rises.
    pub(super) fn put_job_facts(
        &mut self,
        key: &JobKey,
        change: impl FnOnce(&mut Job, &mut JobRecord),
    ) {
        let Some(record) = self.tables.jobs.get(key) else {
            return;
        };
        let mut record = JobRecord::clone(record);
        let mut job = Job::clone(&record.job);
        change(&mut job, &mut record);
        job.modify_index = self.index;
        record.job = Arc::new(job);
        self.tables.put_job(key.clone(), record);
        self.jobs_touched.insert(key.clone());
    }

    /// The status of `key` is to be derived again when the transition is complete.
    pub(super) fn touch_job(&mut self, key: &JobKey) {
        self.jobs_touched.insert(key.clone());
    }

    /// The specification may have lost a reference.
    pub(super) fn spec_released(&mut self, spec: SpecHash) {
        self.specs_released.insert(spec);
    }

    /// How many the evaluation left unplaced, for the job's summary.
    fn note_queued(&mut self, key: &JobKey, eval: &Evaluation) {
        // A cancelled one says what was true when it was made, not now.
        if eval.queued_allocations.is_empty() || eval.status == EvalStatus::Cancelled {
            return;
        }
        let Some(record) = self.tables.jobs.get(key) else {
            return;
        };
        if record.queued == eval.queued_allocations {
            return;
        }
        let mut record = JobRecord::clone(record);
        record.queued.clone_from(&eval.queued_allocations);
        self.tables.jobs.insert(key.clone(), Arc::new(record));
        self.tables.touch(Table::JobSummaries);
    }

    fn derive_job_status(&mut self, key: &JobKey) {
        let Some(record) = self.tables.jobs.get(key) else {
            return;
        };
        let status = job_status(&record.job, self.tables.job_tally(key));
        if record.job.status != status {
            self.put_job_facts(key, |job, _| job.status = status);
            // Putting it asked for another derivation, which would find the same.
            self.jobs_touched.remove(key);
        }
    }
}

/// What a job is doing. System jobs and templates of other jobs are running until they are
/// stopped; any other job runs while one of its allocations does, is pending while an evaluation
/// is, and is dead when everything it had is over. (Nomad's rule.)
pub(crate) fn job_status(job: &Job, tally: Option<JobTally>) -> JobStatus {
    if job.job_type == JobType::System || job.is_template() {
        return if job.stop {
            JobStatus::Dead
        } else {
            JobStatus::Running
        };
    }
    match tally {
        Some(tally) if tally.allocs_live > 0 => JobStatus::Running,
        Some(tally) if tally.evals_live > 0 => JobStatus::Pending,
        Some(_) => JobStatus::Dead,
        // Nothing was ever made for it, or all of it was collected: then it stays as it was.
        None if job.stop => JobStatus::Dead,
        None => job.status,
    }
}
