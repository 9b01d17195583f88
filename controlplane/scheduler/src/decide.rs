//! The phases of one decision, in one visible order: reconcile, release, place, write down.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::command::{AllocChange, Change, PlanApply};
use controlplane_state::{Snapshot, Usage};
use protocol_model::{
    AllocId, AllocMetric, Allocation, ClientStatus, DeploymentId, DesiredStatus, EvalId,
    EvalStatus, EvalTrigger, Evaluation, Job, JobType, NodeId, TaskGroup, UnixNanos,
};

use crate::ask;
use crate::ids::Seeded;
use crate::place::{self, Overlay, Placement, Placer};
use crate::reconcile::{self, Buckets, Wanted};
use crate::rollout::Rollout;
use crate::scratch::Scratch;
use crate::{Decision, GroupReport};

/// Evaluations for later within this time share one (as Nomad batches them).
const LATER_WINDOW_NANOS: i64 = 5_000_000_000;

/// One evaluation being decided.
pub(crate) struct Deciding<'a> {
    snapshot: &'a Snapshot,
    eval: &'a Evaluation,
    now: UnixNanos,
    ids: Seeded,
    scratch: &'a mut Scratch,
    plan: PlanApply,
    report: BTreeMap<String, GroupReport>,
    failed: BTreeMap<String, AllocMetric>,
    queued: BTreeMap<String, i64>,
    classes: BTreeMap<String, bool>,
    escaped: bool,
    overlay: Overlay,
    /// Evaluations for later, by their time.
    later: BTreeMap<UnixNanos, EvalId>,
    rollout: Rollout,
}

impl<'a> Deciding<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
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
            report: BTreeMap::new(),
            failed: BTreeMap::new(),
            queued: BTreeMap::new(),
            classes: BTreeMap::new(),
            escaped: false,
            overlay: Overlay::default(),
            later: BTreeMap::new(),
            rollout: Rollout::default(),
        }
    }

    /// All phases.
    pub(crate) fn run(mut self) -> Decision {
        let key = self.eval.job_key();
        let existing: Vec<Arc<Allocation>> = self.snapshot.allocs_by_job(&key).cloned().collect();
        let job = self.snapshot.job(&key).filter(|job| !job.stop).cloned();
        self.rollout = Rollout::of(self.snapshot, &key, job.as_deref());
        match job {
            None => self.stop_all(&existing),
            Some(job) => self.run_job(&job, existing),
        }
        self.finish()
    }

    /// The job is stopped or gone: so is everything of it.
    fn stop_all(&mut self, existing: &[Arc<Allocation>]) {
        for alloc in existing.iter().filter(|alloc| !alloc.terminal()) {
            let lost = reconcile::Taint::on(self.snapshot, alloc) == reconcile::Taint::Gone;
            self.stop(alloc, "alloc not needed as job is stopped", lost);
            self.report
                .entry(alloc.task_group.clone())
                .or_default()
                .stop += 1;
        }
    }

    fn run_job(&mut self, job: &Arc<Job>, existing: Vec<Arc<Allocation>>) {
        let mut by_group: BTreeMap<String, Vec<Arc<Allocation>>> = BTreeMap::new();
        for alloc in existing {
            by_group
                .entry(alloc.task_group.clone())
                .or_default()
                .push(alloc);
        }
        // Reconcile first, all groups: what leaves makes room for what any group places.
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
            self.release(buckets);
            self.write_changes(job, group, buckets);
        }
        for (group, buckets, allocs) in &sorted {
            self.place_group(job, group, buckets, allocs);
        }
    }

    fn reconcile(&mut self, job: &Job, group: &TaskGroup, allocs: &[Arc<Allocation>]) -> Buckets {
        if matches!(job.job_type, JobType::Service | JobType::Batch) {
            let rollout = &self.rollout;
            let eval = self.eval.id;
            return reconcile::group(self.snapshot, job, group, allocs, rollout, eval, self.now);
        }
        let mut placer = Placer::new(self.snapshot, job, group, &Default::default());
        let mut feasible: BTreeMap<NodeId, bool> = BTreeMap::new();
        for record in self.snapshot.nodes() {
            if placer.feasible(&record.node, self.scratch) {
                feasible.insert(record.node.id, record.node.ready());
            }
        }
        if feasible.is_empty() {
            self.note_classes(&placer);
        }
        reconcile::system(self.snapshot, job, group, allocs, &feasible)
    }

    /// What leaves gives its room back.
    fn release(&mut self, buckets: &Buckets) {
        let leaving = buckets.leaving();
        for id in leaving {
            let Some(alloc) = self.snapshot.alloc(id).filter(|alloc| !alloc.terminal()) else {
                continue;
            };
            if let Some(row) = self.snapshot.node_columns().row(alloc.node_id) {
                self.overlay
                    .release(row, &Usage::of(&alloc.allocated_resources));
            }
        }
    }

    /// Everything but placements.
    fn write_changes(&mut self, job: &Arc<Job>, group: &TaskGroup, buckets: &Buckets) {
        let report = GroupReport::of(buckets);
        self.report.insert(group.name.clone(), report);
        for (alloc, reason) in &buckets.stop {
            self.stop(alloc, reason, false);
        }
        for alloc in &buckets.lost {
            self.stop(alloc, "alloc is lost since its node is down", true);
        }
        for alloc in &buckets.disconnect {
            let window = group.disconnect_window();
            let followup =
                window.map(|window| self.later_eval(self.now.saturating_add(window), job));
            self.change(
                alloc.id,
                Change::Disconnect {
                    description: "alloc is unknown since its node is disconnected".to_owned(),
                    followup_eval: followup,
                },
            );
        }
        for alloc in &buckets.reconnect {
            self.change(alloc.id, Change::Reconnect);
        }
        for (alloc, at) in buckets.reschedule_at.iter().chain(&buckets.give_up_at) {
            let eval = self.later_eval(*at, job);
            self.change(alloc.id, Change::FollowUp { eval });
        }
        for alloc in &buckets.in_place {
            self.update_in_place(job, group, alloc);
        }
        let deployment = self.rollout.deployment_of(group);
        if !buckets.later.is_empty() && deployment.is_none() && !self.rollout.is_halted() {
            // Nobody counts their health any more: what came back from an older version follows
            // when those that are being replaced had time to become healthy.
            let wait = group
                .update
                .as_ref()
                .map(|update| update.min_healthy_time());
            let at = self.now.saturating_add(wait.unwrap_or_default());
            self.later_eval(at, job);
        }
    }

    fn update_in_place(&mut self, job: &Job, group: &TaskGroup, alloc: &Arc<Allocation>) {
        let mut updated = Allocation::clone(alloc);
        updated.job = None;
        updated.job_version = job.version;
        updated.job_create_index = job.create_index;
        updated.spec = self.snapshot.job_spec(&job.key()).unwrap_or(alloc.spec);
        updated.eval_id = self.eval.id;
        updated.allocated_resources = ask::in_place(group, &alloc.allocated_resources);
        updated.deployment_id = self.rollout.deployment_of(group);
        updated.deployment_status = None;
        self.plan.updated.push(Arc::new(updated));
    }

    fn place_group(
        &mut self,
        job: &Arc<Job>,
        group: &TaskGroup,
        buckets: &Buckets,
        allocs: &[Arc<Allocation>],
    ) {
        if buckets.place.is_empty() {
            return;
        }
        let leaving = buckets.leaving();
        let standing = allocs
            .iter()
            .filter(|alloc| !alloc.terminal() && !leaving.contains(&alloc.id));
        self.overlay
            .begin_group(standing.map(|alloc| alloc.node_id));
        let mut placer = Placer::new(self.snapshot, job, group, &leaving);
        let destructive: BTreeMap<AllocId, &Arc<Allocation>> = buckets
            .destructive
            .iter()
            .chain(&buckets.migrate)
            .map(|alloc| (alloc.id, alloc))
            .collect();
        let mut unplaced = 0;
        for wanted in &buckets.place {
            let found = placer.place(wanted, &mut self.overlay, &mut self.ids, self.scratch);
            match found {
                Ok(placement) => {
                    let alloc = self.allocation(job, group, wanted, placement);
                    if let Some(record) = self.snapshot.node(alloc.node_id) {
                        placer.placed(&alloc, &record.node);
                    }
                    self.stop_replaced(wanted);
                    self.plan.placed.push(Arc::new(alloc));
                }
                Err(metrics) => {
                    unplaced += 1;
                    self.keep_replaced(wanted, &destructive);
                    match self.failed.get_mut(&group.name) {
                        Some(known) => known.coalesced_failures += 1,
                        None => {
                            self.failed.insert(group.name.clone(), *metrics);
                        }
                    }
                }
            }
        }
        if unplaced > 0 {
            self.queued.insert(group.name.clone(), unplaced);
            self.note_classes(&placer);
        }
    }

    /// What a placement takes the place of is stopped with it.
    fn stop_replaced(&mut self, wanted: &Wanted) {
        let Some(previous) = wanted
            .previous
            .as_ref()
            .filter(|alloc| !alloc.server_terminal())
        else {
            return;
        };
        let description = match previous.client_status {
            ClientStatus::Failed => "alloc was rescheduled because it failed",
            // A lost or silent one is dealt with already.
            ClientStatus::Lost | ClientStatus::Unknown => return,
            ClientStatus::Pending | ClientStatus::Running | ClientStatus::Complete
                if previous.desired_transition.should_migrate() =>
            {
                "alloc is being migrated"
            }
            ClientStatus::Pending | ClientStatus::Running | ClientStatus::Complete => {
                "alloc is being updated due to job update"
            }
        };
        let handled = self
            .plan
            .changed
            .iter()
            .any(|change| change.id == previous.id);
        if !handled {
            self.stop(&Arc::clone(previous), description, false);
        }
    }

    /// Nothing found its place: what should have been replaced goes on, and its room is taken
    /// again.
    fn keep_replaced(
        &mut self,
        wanted: &Wanted,
        destructive: &BTreeMap<AllocId, &Arc<Allocation>>,
    ) {
        let Some(previous) = &wanted.previous else {
            return;
        };
        if destructive.contains_key(&previous.id) {
            place::keep(&mut self.overlay, self.snapshot, previous);
        }
    }

    fn allocation(
        &mut self,
        job: &Job,
        group: &TaskGroup,
        wanted: &Wanted,
        placement: Placement,
    ) -> Allocation {
        let Placement {
            node,
            resources,
            metrics,
        } = placement;
        Allocation {
            id: AllocId(self.ids.next_id()),
            namespace: job.namespace.clone(),
            eval_id: self.eval.id,
            name: wanted.name.clone(),
            node_id: node.id,
            node_name: node.name.clone(),
            job_id: job.id.clone(),
            job: None,
            job_version: job.version,
            job_create_index: job.create_index,
            spec: self.snapshot.job_spec(&job.key()).unwrap_or_default(),
            task_group: group.name.clone(),
            allocated_resources: resources,
            metrics,
            desired_status: DesiredStatus::Run,
            desired_description: String::new(),
            desired_transition: Default::default(),
            client_status: ClientStatus::Pending,
            client_description: String::new(),
            task_states: BTreeMap::new(),
            alloc_states: Vec::new(),
            deployment_id: self.rollout.deployment_of(group),
            deployment_status: None,
            followup_eval_id: None,
            previous_allocation: wanted.previous.as_ref().map(|alloc| alloc.id),
            next_allocation: None,
            reschedule_tracker: wanted.tracker.clone(),
            preempted_allocations: Vec::new(),
            preempted_by_allocation: None,
            create_index: 0,
            modify_index: 0,
            alloc_modify_index: 0,
            create_time: self.now,
            modify_time: self.now,
        }
    }

    fn stop(&mut self, alloc: &Arc<Allocation>, description: &str, lost: bool) {
        self.change(
            alloc.id,
            Change::Stop {
                description: description.to_owned(),
                client_status: lost.then_some(ClientStatus::Lost),
                followup_eval: None,
            },
        );
    }

    fn change(&mut self, id: AllocId, change: Change) {
        self.plan.changed.push(AllocChange { id, change });
    }

    /// The evaluation that looks again at `at`, shared by all that are due at about that time.
    fn later_eval(&mut self, at: UnixNanos, job: &Job) -> EvalId {
        let near = self
            .later
            .range(UnixNanos(at.0.saturating_sub(LATER_WINDOW_NANOS))..=at);
        // The one that is due last: nobody is looked at before its time.
        if let Some((known, id)) = near.last()
            && *known == at
        {
            return *id;
        }
        let id = EvalId(self.ids.next_id());
        let mut later = Evaluation::new(
            id,
            &job.key(),
            job.job_type,
            self.eval.priority,
            EvalTrigger::RetryFailedAlloc,
            self.now,
        );
        later.wait_until = Some(at);
        later.previous_eval = Some(self.eval.id);
        later.status_description = "created for delayed rescheduling".to_owned();
        self.plan.evals.push(later);
        self.later.insert(at, id);
        id
    }

    fn note_classes(&mut self, placer: &Placer<'_>) {
        self.escaped |= placer.escapes_class();
        for (class, eligible) in placer.class_eligibility() {
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
        let (begun, ended) = self.rollout.into_plan();
        self.plan.deployment = begun;
        self.plan.deployment_changes = ended;
        Decision {
            plan: self.plan,
            groups: self.report,
            failed: self.failed,
        }
    }
}
