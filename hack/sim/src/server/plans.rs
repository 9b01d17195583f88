//! What scheduler threads do with an evaluation: the server's `leading/workers.rs` and
//! `leading/plans.rs`, and `leading/commit.rs`.

use std::collections::VecDeque;

use controlplane_leader::broker::Delivery;
use controlplane_leader::{pieces, plan, retry};
use controlplane_scheduler::{Decision, schedule};
use controlplane_state::Command;
use controlplane_state::command::PlanApply;
use protocol_model::JobType;

use super::change::Then;
use super::leading::Reign;
use crate::event::{Answer, Decided, ServerEvent, ServerIx};
use crate::time::{MILLI, Nanos, wall};
use crate::world::World;

/// Attempts at one delivery (as the server).
const ATTEMPTS_MAX: u32 = 5;
const ATTEMPTS_BATCH_MAX: u32 = 2;
/// Placements and changes in one entry; few, so that plans have several.
const PIECE_ITEMS_MAX: usize = 3;
/// How long the log is everybody else's after a piece, at most (as the server).
const REST_MAX: Nanos = 50 * MILLI;
/// Between two attempts at finding out what became of a plan (as the server).
const SETTLE_PAUSE: Nanos = 100 * MILLI;

/// A plan, some of which is in the log's hands.
#[derive(Debug)]
pub struct PlanInHand {
    reign: Reign,
    delivery: Delivery,
    attempt: u32,
    /// Whether the evaluation is over with it.
    whole: bool,
    /// The pieces that are not.
    waiting: VecDeque<PlanApply>,
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
    pub(super) fn work(&mut self, ix: ServerIx, delivery: Delivery, attempt: u32) {
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
        running.busy += 1;
        let decision = schedule(&snapshot, &delivery.eval, seed, &mut running.scratch, now);
        let decided = Decided {
            reign,
            delivery,
            attempt,
            decision,
        };
        let event = ServerEvent::Decided(Box::new(decided));
        self.server_event(ix, takes + extra, event);
    }

    pub(super) fn on_decided(&mut self, ix: ServerIx, decided: Decided) {
        let Decided {
            reign,
            delivery,
            attempt,
            decision: Decision { plan, .. },
        } = decided;
        let now = self.leader_now(ix);
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != reign {
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
        let in_hand = |plan, whole| PlanInHand {
            reign,
            delivery: delivery.clone(),
            attempt,
            whole,
            waiting: in_pieces(plan, commit),
        };
        if checked.rejected.is_empty() {
            self.propose_piece(ix, Box::new(in_hand(checked.plan, true)));
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
            self.propose_piece(ix, Box::new(in_hand(part, false)));
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
                running.leader.holds(id, token, now);
                return self.server_event(ix, rest, ServerEvent::NextPiece(plan));
            }
            Answer::Done { .. } if plan.whole => {
                running.leader.ack(id, token);
            }
            Answer::Done { .. } | Answer::Refused(_) => {
                self.again(ix, plan.delivery, plan.attempt);
            }
            // What it left is seen behind a barrier.
            Answer::Unknown => return self.settle_plan(ix, plan),
            Answer::NoLeader => {
                running.leader.nack(id, token, now);
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
        match answer {
            Answer::Done { .. } | Answer::Refused(_) => {
                self.again(ix, plan.delivery, plan.attempt);
            }
            Answer::Unknown => {
                return self.server_event(ix, SETTLE_PAUSE, ServerEvent::Settle(plan));
            }
            Answer::NoLeader => {
                running
                    .leader
                    .nack(plan.delivery.eval.id, plan.delivery.token, now);
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
