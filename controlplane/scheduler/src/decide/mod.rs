//! The phases of one decision, in one visible order: reconcile, write down what changes, place.

mod changes;
mod placing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::Snapshot;
use controlplane_state::command::PlanApply;
use protocol_model::{
    AllocId, AllocMetric, Allocation, DeploymentId, EvalId, EvalStatus, EvalTrigger, Evaluation,
    Job, JobType, NodeId, TaskGroup, UnixNanos,
};

use crate::concurrency::Concurrency;
use crate::feasible::Standing;
use crate::ids::Seeded;
use crate::later::Later;
use crate::place::{Overlay, Placer, Staying, Tools};
use crate::reconcile::{self, Buckets, Place, Subject};
use crate::rollout::Rollout;
use crate::scratch::Scratch;
use crate::{Decision, GroupReport};

/// One evaluation being decided.
pub(crate) struct Deciding<'a> {
    snapshot: &'a Snapshot,
    eval: &'a Evaluation,
    now: UnixNanos,
    ids: Seeded,
    scratch: &'a mut Scratch,
    plan: PlanApply,
    /// Allocations of which the plan changes something already.
    handled: BTreeSet<AllocId>,
    /// Those of them that it stops.
    leaving: BTreeSet<AllocId>,
    report: BTreeMap<String, GroupReport>,
    failed: BTreeMap<String, AllocMetric>,
    queued: BTreeMap<String, i64>,
    classes: BTreeMap<String, bool>,
    escaped: bool,
    overlay: Overlay,
    later: Later,
    rollout: Rollout,
}

impl<'a> Deciding<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        concurrency: &Concurrency,
        eval: &'a Evaluation,
        seed: [u8; 16],
        scratch: &'a mut Scratch,
        now: UnixNanos,
    ) -> Self {
        let plan = PlanApply {
            eval_id: Some(eval.id),
            snapshot_index: snapshot.index(),
            ..PlanApply::default()
        };
        Self {
            snapshot,
            eval,
            now,
            ids: Seeded::new(seed),
            scratch,
            plan,
            handled: BTreeSet::new(),
            leaving: BTreeSet::new(),
            report: BTreeMap::new(),
            failed: BTreeMap::new(),
            queued: BTreeMap::new(),
            classes: BTreeMap::new(),
            escaped: false,
            overlay: Overlay::new(snapshot, concurrency),
            later: Later::default(),
            rollout: Rollout::default(),
        }
    }

    /// All phases.
    pub(crate) fn run(mut self) -> Decision {
        let key = self.eval.job_key();
        let existing: Vec<Arc<Allocation>> = self.snapshot.allocs_by_job(&key).cloned().collect();
        let job = self.snapshot.job(&key).filter(|job| !job.stop).cloned();
        let is_trial = self.eval.annotate_plan;
        self.rollout = Rollout::of(self.snapshot, &key, job.as_deref(), is_trial);
        match job {
            None => {
                // What is stopped waits for nothing.
                if let Some(stopped) = self.snapshot.job(&key) {
                    self.queues_nothing(stopped);
                }
                self.stop_all(&existing);
            }
            Some(job) => self.run_job(&job, existing),
        }
        self.finish()
    }

    /// The job is stopped or gone: so is everything of it.
    fn stop_all(&mut self, existing: &[Arc<Allocation>]) {
        for alloc in existing.iter().filter(|alloc| !alloc.terminal()) {
            // One on a lease may run still, and a job that is registered again has to wait for it.
            let lost = reconcile::Taint::on(self.snapshot, alloc).is_final()
                && !self.snapshot.is_on_lease(alloc);
            self.stop(alloc, "alloc not needed as job is stopped", lost);
            self.free(alloc);
            self.report
                .entry(alloc.task_group.clone())
                .or_default()
                .stop += 1;
        }
    }

    /// None of the job's groups waits for room, as long as nothing else is found: it is said, since
    /// the state keeps the last number that it was told.
    fn queues_nothing(&mut self, job: &Job) {
        let groups = job.task_groups.iter().map(|group| (group.name.clone(), 0));
        self.queued.extend(groups);
    }

    fn run_job(&mut self, job: &Arc<Job>, existing: Vec<Arc<Allocation>>) {
        self.queues_nothing(job);
        let mut by_group: BTreeMap<String, Vec<Arc<Allocation>>> = BTreeMap::new();
        for alloc in existing {
            match by_group.get_mut(&alloc.task_group) {
                Some(allocs) => allocs.push(alloc),
                None => {
                    by_group.insert(alloc.task_group.clone(), vec![alloc]);
                }
            }
        }
        // Reconcile first, all groups: what leaves whatever happens makes room for what any group
        // places.
        let mut sorted: Vec<(&TaskGroup, Buckets, Vec<Arc<Allocation>>)> = Vec::new();
        for group in &job.task_groups {
            let allocs = by_group.remove(&group.name).unwrap_or_default();
            let buckets = self.reconcile(job, group, &allocs);
            debug_assert_eq!(
                buckets.len(),
                allocs.len(),
                "every allocation is in one bucket"
            );
            let new_id = || DeploymentId(self.ids.next_id());
            self.rollout.take_in(job, group, &buckets, &allocs, new_id);
            sorted.push((group, buckets, allocs));
        }
        for allocs in by_group.into_values() {
            // A group that this version does not have.
            self.stop_all(&allocs);
        }
        for (group, buckets, _) in &sorted {
            self.write_changes(job, group, buckets);
        }
        for (group, buckets, allocs) in &sorted {
            self.place_group(job, group, buckets, allocs);
        }
        for (group, buckets, allocs) in &sorted {
            self.go_on_later(group, buckets, allocs);
        }
    }

    fn reconcile(&mut self, job: &Job, group: &TaskGroup, allocs: &[Arc<Allocation>]) -> Buckets {
        let subject = Subject {
            snapshot: self.snapshot,
            job,
            group,
            eval: self.eval.id,
            now: self.now,
        };
        let mut placer = Placer::new(self.snapshot, job, group, self.standing());
        if matches!(job.job_type, JobType::Service | JobType::Batch) {
            let mut staying = Staying {
                placer,
                scratch: self.scratch,
            };
            return reconcile::group(&subject, allocs, &self.rollout, &mut staying);
        }
        let mut places: BTreeMap<NodeId, Place> = BTreeMap::new();
        for record in self.snapshot.nodes() {
            let node = &record.node;
            let place = match placer.feasible(node, self.scratch) {
                _ if !placer.in_scope(node) => continue,
                true if node.ready() => Place::Open,
                true => Place::Closed,
                false => Place::Unsuited,
            };
            places.insert(node.id, place);
        }
        let buckets =
            reconcile::system(&subject, allocs, &places, |alloc| placer.makes_room(alloc));
        let unsuited = places.values().all(|place| *place == Place::Unsuited);
        if unsuited && group.count() > 0 && buckets.keep.is_empty() {
            self.explain_nowhere(group, &mut placer);
        }
        buckets
    }

    /// A group that belongs on every node, of which none is feasible, says why.
    fn explain_nowhere(&mut self, group: &TaskGroup, placer: &mut Placer<'_>) {
        let mut tools = Tools {
            overlay: &mut self.overlay,
            ids: &mut self.ids,
            scratch: self.scratch,
        };
        let metrics = placer.explain(&mut tools);
        if metrics.nodes_filtered > 0 {
            self.failed.insert(group.name.clone(), metrics);
            self.note_classes(placer);
        }
    }

    /// The job's allocations as the plan leaves them so far.
    fn standing(&self) -> Standing<'_> {
        Standing {
            leaving: &self.leaving,
            placed: &self.plan.placed,
        }
    }

    fn note_classes(&mut self, placer: &Placer<'_>) {
        self.escaped |= placer.escapes_class();
        for (class, eligible) in placer.feasibility().class_eligibility() {
            *self.classes.entry(class).or_default() |= eligible;
        }
    }

    /// The evaluation's own end, and the blocked one that goes on waiting where something is left.
    fn finish(mut self) -> Decision {
        let mut done = self.eval.clone();
        done.status = EvalStatus::Complete;
        done.status_description = String::new();
        done.modify_time = self.now;
        done.snapshot_index = self.snapshot.index();
        // Whoever waits for the evaluation goes on with the rollout.
        let rollout = self.rollout.under_way().map(|deployment| deployment.id);
        done.deployment_id = rollout.or(done.deployment_id);
        done.failed_tg_allocs.clone_from(&self.failed);
        done.queued_allocations.clone_from(&self.queued);
        let (classes, escaped) = (self.classes, self.escaped);
        if self.failed.is_empty() {
            self.plan.evals.push(done);
        } else if self.eval.status == EvalStatus::Blocked {
            // It was tried once more and goes on waiting.
            done.status = EvalStatus::Blocked;
            done.class_eligibility = classes;
            done.escaped_computed_class = escaped;
            self.plan.evals.push(done);
        } else {
            let id = EvalId(self.ids.next_id());
            let mut blocked = Evaluation::new(
                id,
                &self.eval.job_key(),
                self.eval.job_type,
                self.eval.priority,
                EvalTrigger::QueuedAllocs,
                self.now,
            );
            blocked.status = EvalStatus::Blocked;
            blocked.status_description = "created to place remaining allocations".to_owned();
            blocked.previous_eval = Some(self.eval.id);
            blocked.snapshot_index = self.snapshot.index();
            blocked.class_eligibility = classes;
            blocked.escaped_computed_class = escaped;
            blocked.failed_tg_allocs.clone_from(&self.failed);
            blocked.queued_allocations.clone_from(&self.queued);
            done.blocked_eval = Some(id);
            self.plan.evals.push(done);
            self.plan.evals.push(blocked);
        }
        let (begun, changed) = self.rollout.into_plan();
        self.plan.evals.extend(self.later.into_made());
        self.plan.deployment = begun;
        self.plan.deployment_changes = changed;
        Decision {
            plan: self.plan,
            groups: self.report,
            failed: self.failed,
            crowded_out: false,
        }
    }
}
