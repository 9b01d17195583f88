//! Evaluations, as a part of the leader: which one a worker gets next, which wait for room, which
//! are written off.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::PlanApply;
use controlplane_state::{Command, NodeRejected, Signal, Snapshot, Usage, covers};
use protocol_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, NodeId};

use crate::blocked::{BlockedEvals, Concerns, Freed};
use crate::broker::{BrokerStats, Delivery, EvalBroker, Nacked, Token};
use crate::in_flight::PlansInFlight;
use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// Evaluations written off in one log entry.
const WRITE_OFF_MAX: usize = 512;
/// When an evaluation that failed is tried again; a part of it is added by the evaluation's id, so
/// that many do not come back at once.
const FOLLOW_UP_AFTER: Duration = Duration::from_secs(60);
/// Reasons of refused evaluations that are kept.
const REASONS_MAX: usize = 1024;

/// All evaluations that are open.
#[derive(Debug)]
pub struct Evaluations {
    broker: EvalBroker,
    in_flight: PlansInFlight,
    blocked: BlockedEvals,
    paused: bool,
    /// Evaluations that were written off and are not in the log yet, in batches: of one command
    /// together at most, since no further ones are written off before.
    unwritten: VecDeque<Vec<Evaluation>>,
    /// Why evaluations were refused the last time, for whoever looks at one that failed.
    reasons: BTreeMap<EvalId, String>,
}

impl Evaluations {
    /// Those of a state: all that are open are tried once, since what was freed before is unknown.
    pub(crate) fn of(snapshot: &Snapshot, now: Now) -> Self {
        let mut evaluations = Self {
            broker: EvalBroker::new(),
            in_flight: PlansInFlight::default(),
            blocked: BlockedEvals::new(),
            paused: snapshot.scheduler_config().pause_eval_broker,
            unwritten: VecDeque::new(),
            reasons: BTreeMap::new(),
        };
        for eval in snapshot.evals().filter(|it| !it.status.is_terminal()) {
            evaluations.broker.enqueue(eval, now);
        }
        evaluations
    }

    /// The next evaluation to schedule; none while the broker is paused.
    pub fn dequeue(&mut self, now: Now) -> Option<Delivery> {
        if self.paused {
            None
        } else {
            self.broker.dequeue(now)
        }
    }

    /// A worker is done, and what it decided is in the log.
    pub fn ack(&mut self, id: EvalId, token: Token) -> bool {
        self.reasons.remove(&id);
        self.broker.ack(id, token)
    }

    /// A worker tried a blocked evaluation in vain, as [`crate::retry::in_vain`] says: it waits on,
    /// without an entry of the log. `false` where the delivery is not the newest one.
    pub fn block_again(
        &mut self,
        eval: Evaluation,
        token: Token,
        snapshot: &Snapshot,
        now: Now,
    ) -> bool {
        if !self.ack(eval.id, token) {
            return false;
        }
        let concerns: Concerns<'_> = &|eval, node| concerns(snapshot, eval, node);
        self.blocked.block(Arc::new(eval), concerns);
        self.requeue_unblocked(now);
        true
    }

    /// Why a delivery is about to be refused: shown if the evaluation fails. Where too many reasons
    /// are kept, one of them is forgotten.
    pub fn note_failure(&mut self, id: EvalId, reason: String) {
        self.reasons.insert(id, reason);
        if self.reasons.len() > REASONS_MAX {
            self.reasons.pop_first();
        }
    }

    /// A worker could not do it.
    pub fn nack(&mut self, id: EvalId, token: Token, now: Now) -> Nacked {
        self.broker.nack(id, token, now)
    }

    /// A plan of an evaluation is being committed, in these pieces, until [`Self::on_plan_over`].
    pub fn on_plan(&mut self, id: EvalId, pieces: &[PlanApply]) {
        self.in_flight.begin(id, pieces);
    }

    /// The plan of an evaluation is in the state, as far as it was not refused. Parked evaluations
    /// become ready: the plan may have taken less than it asked for.
    pub fn on_plan_over(&mut self, id: EvalId) {
        self.in_flight.end(id);
        self.broker.unpark();
    }

    /// What plans in flight will take of each node, beyond what `snapshot` shows. `snapshot` must
    /// not be older than that of the call before.
    pub fn planned(&mut self, snapshot: &Snapshot) -> BTreeMap<NodeId, Usage> {
        self.in_flight.planned(snapshot)
    }

    /// A plan was overtaken, wholly or in part: its evaluation is ready again at once, and never
    /// fails because of it. `false` where the delivery is not the newest one.
    pub fn requeue(
        &mut self,
        id: EvalId,
        token: Token,
        refused: usize,
        by: Option<NodeRejected>,
        now: Now,
    ) -> bool {
        self.broker.requeue(id, token, refused, by, now)
    }

    /// Plans in flight will take the room that an evaluation needs: it waits until one of them is
    /// over. `false` where the delivery is not the newest one.
    pub fn park(&mut self, id: EvalId, token: Token) -> bool {
        let parks = self.broker.park(id, token);
        if self.in_flight.is_empty() {
            self.broker.unpark();
        }
        parks
    }

    /// Whether a delivery is still the newest of its evaluation: a plan of another is void.
    pub fn holds(&mut self, id: EvalId, token: Token, now: Now) -> bool {
        self.broker.extend(id, token, now);
        self.broker.holds(id, token)
    }

    /// Lets time pass.
    pub(crate) fn on_timeout(&mut self, now: Now) {
        self.broker.on_timeout(now);
    }

    /// How much the broker holds.
    pub fn broker_stats(&self) -> BrokerStats {
        self.broker.stats()
    }

    /// How many evaluations wait for capacity, and how many of them any node may help.
    pub fn blocked_stats(&self) -> (usize, usize) {
        (self.blocked.len(), self.blocked.escaped())
    }

    fn requeue_unblocked(&mut self, now: Now) {
        for eval in self.blocked.take_unblocked(usize::MAX) {
            self.broker.enqueue(&eval, now);
        }
    }

    /// What was written off, the log did not take, and the state does not know to be over.
    fn take_unwritten(&mut self, snapshot: &Snapshot) -> Vec<Evaluation> {
        let open = |id| {
            let eval = snapshot.eval(id);
            eval.is_some_and(|eval| !eval.status.is_terminal())
        };
        while let Some(mut evals) = self.unwritten.pop_front() {
            evals.retain(|eval| match eval.previous_eval {
                // The follow-up of one that failed goes with it.
                Some(failed) if !eval.status.is_terminal() => open(failed),
                Some(_) | None => open(eval.id),
            });
            if !evals.is_empty() {
                return evals;
            }
        }
        Vec::new()
    }

    /// Evaluations that end without being scheduled: needless ones and those that failed.
    fn write_off(
        &mut self,
        snapshot: &Snapshot,
        ids: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Vec<Evaluation> {
        let needless = self
            .broker
            .take_cancelled(WRITE_OFF_MAX)
            .into_iter()
            .chain(self.blocked.take_duplicates(WRITE_OFF_MAX));
        // An operator may have deleted it since.
        let known = |eval: &Arc<Evaluation>| snapshot.eval(eval.id).is_some();
        let mut evals: Vec<Evaluation> = needless
            .filter(known)
            .map(|eval| {
                let mut eval = Evaluation::clone(&eval);
                eval.status = EvalStatus::Cancelled;
                eval.status_description =
                    "cancelled: a newer evaluation of the job took its place".to_owned();
                eval
            })
            .collect();
        for failed in self.broker.take_failed(WRITE_OFF_MAX) {
            if snapshot.eval(failed.id).is_none() {
                continue;
            }
            let mut again = Evaluation::new(
                ids(),
                &failed.job_key(),
                failed.job_type,
                failed.priority,
                EvalTrigger::FailedFollowUp,
                now.wall,
            );
            let spread = u64::from(again.id.as_bytes()[0]);
            let wait = FOLLOW_UP_AFTER + Duration::from_secs(spread);
            again.wait_until = Some(now.wall.saturating_add(wait));
            again.previous_eval = Some(failed.id);
            let mut over = Evaluation::clone(&failed);
            over.status = EvalStatus::Failed;
            over.status_description = match self.reasons.remove(&failed.id) {
                Some(reason) => format!("failed in three attempts: {reason}"),
                None => "failed: no scheduler finished it in three attempts".to_owned(),
            };
            over.next_eval = Some(again.id);
            evals.push(over);
            evals.push(again);
        }
        evals
    }
}

impl LeaderPart for Evaluations {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a part names the signals that it acts on"
    )]
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        let Applied {
            index,
            signals,
            snapshot,
        } = applied;
        let concerns: Concerns<'_> = &|eval, node| concerns(snapshot, eval, node);
        for signal in signals {
            match signal {
                Signal::EvalPending(eval) => self.broker.enqueue(eval, now),
                Signal::EvalBlocked(eval) => {
                    // It may still be in flight, with the worker that blocked it.
                    self.broker.remove(eval.id);
                    self.blocked.block(Arc::clone(eval), concerns);
                }
                Signal::EvalEnded { id, .. } | Signal::EvalRemoved(id) => {
                    self.broker.remove(*id);
                    self.blocked.remove(*id);
                }
                Signal::JobRemoved(job) | Signal::JobChanged(job) => self.blocked.untrack(job),
                Signal::CapacityFreed { node, class, since } => {
                    let freed = Freed::new(*node, class, *since, index);
                    self.blocked.on_capacity(&freed, concerns);
                }
                Signal::SchedulerConfigChanged => {
                    self.paused = snapshot.scheduler_config().pause_eval_broker;
                }
                _ => {}
            }
        }
        self.requeue_unblocked(now);
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        ids: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        let mut evals = self.take_unwritten(snapshot);
        if evals.is_empty() {
            evals = self.write_off(snapshot, ids, now);
        }
        (!evals.is_empty()).then_some(Effect::Command(Command::EvalsUpsert { evals }))
    }

    fn on_failed(&mut self, effect: &Effect, _: Now) {
        if let Effect::Command(Command::EvalsUpsert { evals }) = effect {
            self.unwritten.push_front(evals.clone());
        }
    }

    /// Of evaluations that are written off together, one that is refused keeps none of the others:
    /// they are proposed again in halves.
    fn on_refused(&mut self, effect: &Effect, _: &str) {
        if let Effect::Command(Command::EvalsUpsert { evals }) = effect {
            for half in halves(evals).into_iter().rev() {
                self.unwritten.push_front(half);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.broker.poll_timeout()
    }
}

/// Evaluations that were written off together, in two halves; nothing where there is only one of
/// them. An evaluation that failed and its follow-up, which comes behind it, stay together.
fn halves(evals: &[Evaluation]) -> Vec<Vec<Evaluation>> {
    let goes_with = |at: usize| evals[at].previous_eval == Some(evals[at - 1].id);
    let middle = evals.len().div_ceil(2);
    let cut = (middle..evals.len())
        .chain((1..middle).rev())
        .find(|at| !goes_with(*at));
    let cut = cut.map(|at| evals.split_at(at));
    cut.map_or_else(Vec::new, |(front, back)| {
        vec![front.to_vec(), back.to_vec()]
    })
}

/// Whether `node` is in the pool and datacenters of an evaluation's job, as far as is known.
fn concerns(snapshot: &Snapshot, eval: &Evaluation, node: NodeId) -> bool {
    let job = snapshot.job(&eval.job_key());
    let record = snapshot.node(node);
    job.zip(record)
        .is_none_or(|(job, record)| covers(job, &record.node))
}
