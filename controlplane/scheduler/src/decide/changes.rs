//! What is written down of existing allocations: stops, losses, silence, returns, updates in place,
//! and who looks at them again.

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{AllocChange, Change};
use protocol_model::{
    AllocId, Allocation, ClientStatus, EvalId, Job, TaskGroup, UnixNanos, UpdateStrategy,
};

use super::Deciding;
use crate::GroupReport;
use crate::ask;
use crate::later::Why;
use crate::reconcile::{self, Buckets};
use crate::rollout::HeldUp;

/// What came back from an older version follows no sooner, whatever `min_healthy_time` says: each
/// look that finds nothing to do yet is an entry of the log.
const FOLLOWS_AFTER_MIN: Duration = Duration::from_secs(5);

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
            let until = reconcile::given_up_at(self.snapshot, group, alloc, self.now);
            let followup = until.map(|at| self.look_again(at, Why::Window));
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
    pub(super) fn go_on_later(
        &mut self,
        group: &TaskGroup,
        buckets: &Buckets,
        allocs: &[Arc<Allocation>],
    ) {
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
        match buckets.later_at {
            Some(at) => {
                self.look_again(at, Why::Rollout);
            }
            None if self.time_helps(group, allocs) => {
                let wait = group.update.as_ref().map(UpdateStrategy::min_healthy_time);
                let wait = wait.unwrap_or_default().max(FOLLOWS_AFTER_MIN);
                self.look_again(self.now.saturating_add(wait), Why::Rollout);
            }
            None => {}
        }
    }

    /// Whether more of a group may be replaced after a while, without a deployment: when what this
    /// plan places had time to become healthy, or what came back was judged. Of anything else that
    /// they wait for (room, the end of what may still run, or of what is unhealthy) somebody hears.
    fn time_helps(&self, group: &TaskGroup, allocs: &[Arc<Allocation>]) -> bool {
        let leaves = |alloc: &Allocation| self.leaving.contains(&alloc.id);
        match self.rollout.holds_up(allocs, leaves) {
            HeldUp::ForGood => false,
            HeldUp::UntilJudged => true,
            HeldUp::No => {
                let mut placed = self.plan.placed.iter();
                placed.any(|alloc| alloc.task_group == group.name)
                    || allocs.iter().any(|alloc| leaves(alloc))
            }
        }
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

    /// What leaves whatever happens gives its room to this plan.
    pub(super) fn free(&mut self, alloc: &Allocation) {
        if alloc.holds_room() {
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
