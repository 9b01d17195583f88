//! What is written down of existing allocations: stops, losses, silence, returns, updates in place,
//! and who looks at them again.

use std::sync::Arc;

use controlplane_state::command::{AllocChange, Change};
use protocol_model::{
    AllocId, Allocation, ClientStatus, EvalId, Job, TaskGroup, UnixNanos, UpdateStrategy,
};

use super::Deciding;
use crate::GroupReport;
use crate::ask;
use crate::later::Why;
use crate::reconcile::Buckets;

impl Deciding<'_> {
    /// Everything but placements.
    pub(super) fn write_changes(&mut self, job: &Arc<Job>, group: &TaskGroup, buckets: &Buckets) {
        let report = GroupReport::of(buckets);
        self.report.insert(group.name.clone(), report);
        for (alloc, reason) in &buckets.stop {
            self.stop(alloc, reason, false);
            self.free(alloc);
        }
        for alloc in &buckets.lost {
            self.stop(alloc, "alloc is lost since its node is down", true);
            self.free(alloc);
        }
        for alloc in &buckets.disconnect {
            let window = group.lease_wait().or_else(|| group.disconnect_window());
            let followup =
                window.map(|window| self.look_again(self.now.saturating_add(window), Why::Window));
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
        if buckets.returns_outdated(job) {
            self.look_again(self.now, Why::Return);
        }
        let failed = buckets.reschedule_at.iter().map(|it| (it, Why::Failed));
        let silent = buckets.give_up_at.iter().map(|it| (it, Why::Window));
        for ((alloc, at), why) in failed.chain(silent) {
            let eval = self.look_again(*at, why);
            self.change(alloc.id, Change::FollowUp { eval });
        }
        for alloc in &buckets.in_place {
            self.update_in_place(job, group, alloc);
        }
    }

    /// Who looks at what is replaced later, where nobody's health says when. After placements: what
    /// found no room is looked at when there is some.
    pub(super) fn go_on_later(&mut self, group: &TaskGroup, buckets: &Buckets) {
        if buckets.later.is_empty()
            || self.rollout.deployment_of(group).is_some()
            || self.rollout.is_halted()
        {
            return;
        }
        let now_due = &buckets.destructive;
        if !now_due.is_empty() && !now_due.iter().any(|it| self.leaving.contains(&it.id)) {
            return;
        }
        // Without a deployment: what came back from an older version follows when those that are
        // being replaced had time to become healthy.
        let wait = group.update.as_ref().map(UpdateStrategy::min_healthy_time);
        let healthy_at = self.now.saturating_add(wait.unwrap_or_default());
        self.look_again(buckets.later_at.unwrap_or(healthy_at), Why::Rollout);
    }

    fn update_in_place(&mut self, job: &Job, group: &TaskGroup, alloc: &Arc<Allocation>) {
        let mut updated = Allocation::clone(alloc);
        updated.job = None;
        updated.job_version = job.version;
        updated.job_create_index = job.create_index;
        updated.spec = self.snapshot.job_spec(&job.key()).unwrap_or(alloc.spec);
        updated.eval_id = self.eval.id;
        updated.allocated_resources = Arc::new(ask::in_place(group, &alloc.allocated_resources));
        updated.deployment_id = self.rollout.deployment_of(group);
        updated.deployment_status = None;
        self.plan.updated.push(Arc::new(updated));
    }

    pub(super) fn stop(&mut self, alloc: &Allocation, description: &str, lost: bool) {
        self.leaving.insert(alloc.id);
        self.change(
            alloc.id,
            Change::Stop {
                description: description.to_owned(),
                client_status: lost.then_some(ClientStatus::Lost),
                followup_eval: None,
            },
        );
    }

    /// What leaves whatever happens gives its room back.
    pub(super) fn free(&mut self, alloc: &Allocation) {
        if !alloc.terminal() {
            self.overlay.free(self.snapshot, alloc);
        }
    }

    fn change(&mut self, id: AllocId, change: Change) {
        self.handled.insert(id);
        self.plan.changed.push(AllocChange { id, change });
    }

    /// The evaluation that looks again at `at`.
    fn look_again(&mut self, at: UnixNanos, why: Why) -> EvalId {
        let (snapshot, eval) = (self.snapshot, self.eval);
        self.later
            .look_again(snapshot, eval, at, why, &mut self.ids, self.now)
    }
}
