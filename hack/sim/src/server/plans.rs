//! What scheduler threads do with an evaluation: the server's `leading/workers.rs` and
//! `leading/plans.rs`, and `leading/commit.rs`.

use std::collections::VecDeque;

use controlplane_leader::broker::Delivery;
use controlplane_leader::{pieces, plan, retry};
use controlplane_scheduler::{Concurrency, Decision, schedule_concurrent};
use controlplane_state::Command;
use controlplane_state::command::PlanApply;

use super::change::Then;
use super::leading::Reign;
use crate::event::{Answer, Decided, ServerEvent, ServerIx};
use crate::time::{MILLI, Nanos, wall};
use crate::world::World;

/// Placements and changes in one entry; few, so that plans have several.
const PIECE_ITEMS_MAX: usize = 3;
/// How long the log is everybody else's after a piece, at most (as the server).
const REST_MAX: Nanos = 50 * MILLI;
/// Between two attempts at finding out what became of a plan (as the server).
const SETTLE_PAUSE: Nanos = 100 * MILLI;

/// What is left to do for an evaluation after the part of its plan that holds (as the server).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    Nothing,
    Overtaken(usize),
    CrowdedOut,
}

/// A plan, some of which is in the log's hands.
#[derive(Debug)]
pub struct PlanInHand {
    reign: Reign,
    delivery: Delivery,
    /// What is left to do for the evaluation after it.
    rest: Rest,
    /// The pieces that are not.
    waiting: VecDeque<PlanApply>,
}

/// Whether a plan without its evaluations changes nothing.
fn is_empty(part: &PlanApply) -> bool {
    part.placed.is_empty()
        && part.updated.is_empty()
        && part.changed.is_empty()
        && part.preempted.is_empty()
}

impl PlanInHand {
    pub(super) fn reign(&self) -> Reign {
        self.reign
    }
}

/// All or nothing can only be one entry.
fn in_pieces(plan: PlanApply, commit: plan::Commit) -> VecDeque<PlanApply> {
    match commit {
        plan::Commit::Whole => VecDeque::from([plan]),
        plan::Commit::Partial => pieces::split(plan, PIECE_ITEMS_MAX).into(),
    }
}

impl World {
    /// A scheduler thread takes an evaluation.
    pub(super) fn work(&mut self, ix: ServerIx, delivery: Delivery) {
        let seed = self.rng.bytes();
        let takes = self.rng.between(MILLI / 5, 15 * MILLI);
        let skew = self.servers[usize::from(ix)].skew;
        let now = wall(self.now, skew);
        let extra = self.servers[usize::from(ix)].extra;
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        self.counts.scheduled += 1;
        let Some((reign, running)) = self.running(ix) else {
            return;
        };
        let ready = running.leader.evaluations.broker_stats().ready;
        let lane = running.lanes.take(&snapshot, &delivery.eval, ready);
        let Some(lane) = lane else {
            return;
        };
        let concurrency = Concurrency {
            planned: running.leader.evaluations.planned(&snapshot),
            lane,
        };
        let scratch = &mut running.scratch;
        let decision =
            schedule_concurrent(&snapshot, &concurrency, &delivery.eval, seed, scratch, now);
        let decided = Decided {
            reign,
            delivery,
            lane,
            decision,
        };
        let event = ServerEvent::Decided(Box::new(decided));
        self.server_event(ix, takes + extra, event);
    }

    pub(super) fn on_decided(&mut self, ix: ServerIx, decided: Decided) {
        let Decided {
            reign,
            delivery,
            lane,
            decision: Decision {
                plan, crowded_out, ..
            },
        } = decided;
        let now = self.leader_now(ix);
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != reign {
            return;
        }
        running.lanes.give_back(lane);
        let (id, token) = (delivery.eval.id, delivery.token);
        if !running.leader.evaluations.holds(id, token, now) {
            return self.turn(ix);
        }
        if !crowded_out && let Some(eval) = retry::in_vain(&snapshot, &plan) {
            running
                .leader
                .evaluations
                .block_again(eval, token, &snapshot, now);
            return self.turn(ix);
        }
        let whole = snapshot
            .job(&delivery.eval.job_key())
            .is_some_and(|job| job.all_at_once);
        if whole && crowded_out {
            running.leader.evaluations.park(id, token);
            return self.turn(ix);
        }
        let commit = if whole {
            plan::Commit::Whole
        } else {
            plan::Commit::Partial
        };
        let decided = plan.placed.len();
        let planned = running.leader.evaluations.planned(&snapshot);
        let checked = plan::check(&snapshot, &planned, plan, commit);
        let rest = match (checked.rejected.is_empty(), crowded_out) {
            (false, _) => Rest::Overtaken(decided - checked.plan.placed.len()),
            (true, true) => Rest::CrowdedOut,
            (true, false) => Rest::Nothing,
        };
        let mut part = checked.plan;
        if rest != Rest::Nothing {
            part.evals.clear();
        }
        if rest != Rest::Nothing && is_empty(&part) {
            self.follow(ix, &delivery, rest);
        } else {
            let waiting = in_pieces(part, commit);
            running
                .leader
                .evaluations
                .on_plan(id, waiting.as_slices().0);
            let plan = PlanInHand {
                reign,
                delivery,
                rest,
                waiting,
            };
            self.propose_piece(ix, Box::new(plan));
        }
        self.turn(ix);
    }

    /// The next piece of a plan; a barrier where nobody knows what became of the one before.
    pub(super) fn propose_piece(&mut self, ix: ServerIx, mut plan: Box<PlanInHand>) {
        if !self.is_in_hand(ix, &plan) {
            return;
        }
        if let Some(piece) = plan.waiting.pop_front() {
            self.change(ix, Command::PlanApply(Box::new(piece)), Then::Plan(plan));
        }
    }

    pub(super) fn on_plan_done(&mut self, ix: ServerIx, plan: Box<PlanInHand>, answer: &Answer) {
        let now = self.leader_now(ix);
        let rest = self.rng.below(REST_MAX);
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != plan.reign {
            return;
        }
        let (id, token) = (plan.delivery.eval.id, plan.delivery.token);
        match answer {
            Answer::Done { .. } if !plan.waiting.is_empty() => {
                // The log is everybody else's for a moment, and the evaluation still in hand.
                running.leader.evaluations.holds(id, token, now);
                return self.server_event(ix, rest, ServerEvent::NextPiece(plan));
            }
            Answer::Done { .. } => {
                running.leader.evaluations.on_plan_over(id);
                self.follow(ix, &plan.delivery, plan.rest);
            }
            Answer::Refused(_) => {
                running.leader.evaluations.on_plan_over(id);
                self.follow(ix, &plan.delivery, Rest::Overtaken(1));
            }
            // What it left is seen behind a barrier.
            Answer::Unknown => return self.settle_plan(ix, plan),
            Answer::NoLeader => {
                running.leader.evaluations.on_plan_over(id);
                running.leader.evaluations.nack(id, token, now);
            }
        }
        self.turn(ix);
    }

    pub(super) fn settle_plan(&mut self, ix: ServerIx, plan: Box<PlanInHand>) {
        if self.is_in_hand(ix, &plan) {
            self.change(ix, Command::Barrier, Then::Settled(plan));
        }
    }

    /// Whether whoever decided a plan goes on with it: one that begins anew drops what is left.
    fn is_in_hand(&mut self, ix: ServerIx, plan: &PlanInHand) -> bool {
        let running = self.running(ix);
        running.is_some_and(|(reign, _)| reign == plan.reign)
    }

    pub(super) fn on_plan_settled(&mut self, ix: ServerIx, plan: Box<PlanInHand>, answer: &Answer) {
        let now = self.leader_now(ix);
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != plan.reign {
            return;
        }
        let (id, token) = (plan.delivery.eval.id, plan.delivery.token);
        match answer {
            Answer::Done { .. } | Answer::Refused(_) => {
                running.leader.evaluations.on_plan_over(id);
                self.follow(ix, &plan.delivery, Rest::Overtaken(0));
            }
            Answer::Unknown => {
                return self.server_event(ix, SETTLE_PAUSE, ServerEvent::Settle(plan));
            }
            Answer::NoLeader => {
                running.leader.evaluations.on_plan_over(id);
                running.leader.evaluations.nack(id, token, now);
            }
        }
        self.turn(ix);
    }

    /// What is left to do for an evaluation, now that the state shows what became of its plan.
    fn follow(&mut self, ix: ServerIx, delivery: &Delivery, rest: Rest) {
        let now = self.leader_now(ix);
        let Some((_, running)) = self.running(ix) else {
            return;
        };
        let (id, token) = (delivery.eval.id, delivery.token);
        match rest {
            Rest::Nothing => running.leader.evaluations.ack(id, token),
            Rest::Overtaken(refused) => running
                .leader
                .evaluations
                .requeue(id, token, refused, None, now),
            Rest::CrowdedOut => running.leader.evaluations.park(id, token),
        };
    }
}
