//! What scheduler threads do with an evaluation: the server's `leading/workers.rs` and
//! `leading/plans.rs`.

use controlplane_leader::broker::Delivery;
use controlplane_leader::{plan, retry};
use controlplane_scheduler::{Decision, schedule};
use controlplane_state::Command;
use controlplane_state::command::PlanApply;
use protocol_model::JobType;

use super::change::Then;
use crate::event::{Answer, Decided, ServerEvent, ServerIx};
use crate::time::{MILLI, wall};
use crate::world::World;

/// Attempts at one delivery (as the server).
const ATTEMPTS_MAX: u32 = 5;
const ATTEMPTS_BATCH_MAX: u32 = 2;

impl World {
    /// A scheduler thread takes an evaluation.
    pub(super) fn work(&mut self, ix: ServerIx, delivery: Delivery, attempt: u32) {
        let seed = self.rng.bytes();
        let takes = self.rng.between(MILLI / 5, 15 * MILLI);
        let skew = self.servers[usize::from(ix)].skew;
        let now = wall(self.now, skew);
        let extra = self.servers[usize::from(ix)].extra;
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        self.counts.scheduled += 1;
        let Some((term, running)) = self.running(ix) else {
            return;
        };
        running.busy += 1;
        let decision = schedule(&snapshot, &delivery.eval, seed, &mut running.scratch, now);
        let decided = Decided {
            term,
            delivery,
            attempt,
            decision,
        };
        let event = ServerEvent::Decided(Box::new(decided));
        self.server_event(ix, takes + extra, event);
    }

    pub(super) fn on_decided(&mut self, ix: ServerIx, decided: Decided) {
        let Decided {
            term,
            delivery,
            attempt,
            decision: Decision { plan, .. },
        } = decided;
        let now = self.leader_now(ix);
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != term {
            return;
        }
        running.busy = running.busy.saturating_sub(1);
        if !running.leader.holds(delivery.eval.id, delivery.token, now) {
            return self.turn(ix);
        }
        if let Some(eval) = retry::in_vain(&snapshot, &plan) {
            running
                .leader
                .block_again(eval, delivery.token, &snapshot, now);
            return self.turn(ix);
        }
        let whole = snapshot
            .job(&delivery.eval.job_key())
            .is_some_and(|job| job.all_at_once);
        let commit = if whole {
            plan::Commit::Whole
        } else {
            plan::Commit::Partial
        };
        let checked = plan::check(&snapshot, plan, commit);
        if checked.rejected.is_empty() {
            self.propose_plan(ix, term, delivery, attempt, checked.plan, true);
            return self.turn(ix);
        }
        let part = PlanApply {
            evals: Vec::new(),
            ..checked.plan
        };
        let empty = part.placed.is_empty()
            && part.updated.is_empty()
            && part.changed.is_empty()
            && part.preempted.is_empty();
        if empty {
            self.again(ix, delivery, attempt);
        } else {
            self.propose_plan(ix, term, delivery, attempt, part, false);
        }
        self.turn(ix);
    }

    fn propose_plan(
        &mut self,
        ix: ServerIx,
        term: u64,
        delivery: Delivery,
        attempt: u32,
        plan: PlanApply,
        whole: bool,
    ) {
        let then = Then::Plan {
            term,
            delivery,
            attempt,
            whole,
        };
        self.change(ix, Command::PlanApply(Box::new(plan)), then);
    }

    pub(super) fn on_plan_done(
        &mut self,
        ix: ServerIx,
        term: u64,
        delivery: Delivery,
        attempt: u32,
        whole: bool,
        answer: &Answer,
    ) {
        let now = self.leader_now(ix);
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != term {
            return;
        }
        match answer {
            Answer::Done { .. } if whole => {
                running.leader.ack(delivery.eval.id, delivery.token);
            }
            Answer::Done { .. } | Answer::Refused(_) => self.again(ix, delivery, attempt),
            Answer::NoLeader | Answer::Unknown => {
                running.leader.nack(delivery.eval.id, delivery.token, now);
            }
        }
        self.turn(ix);
    }

    fn again(&mut self, ix: ServerIx, delivery: Delivery, attempt: u32) {
        let now = self.leader_now(ix);
        let Some((_, running)) = self.running(ix) else {
            return;
        };
        let attempts_max = match delivery.eval.job_type {
            JobType::Batch | JobType::Sysbatch => ATTEMPTS_BATCH_MAX,
            JobType::Service | JobType::System => ATTEMPTS_MAX,
        };
        let (id, token) = (delivery.eval.id, delivery.token);
        if attempt >= attempts_max || !running.leader.holds(id, token, now) {
            running.leader.nack(id, token, now);
            return;
        }
        self.work(ix, delivery, attempt + 1);
    }
}
