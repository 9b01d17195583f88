//! The plan queue: decisions are checked against the newest state and proposed, several at a time
//! (`commit`). A plan that another one overtook is refused by the state itself, and its evaluation
//! goes back to its queue: that is no failure, however often it happens.

use std::collections::HashMap;
use std::time::Duration;

use controlplane_leader::broker::{ANSWER_MAX, AT_ONCE_MAX, Delivery, Overtaken, Token};
use controlplane_leader::{Leader, Now, pieces, plan, retry};
use controlplane_scheduler::Decision;
use controlplane_state::command::PlanApply;
use controlplane_state::{NodeRejected, Refusal, Snapshot};
use protocol_model::EvalId;
use tokio::task::{Id, JoinSet};
use tracing::field;

use super::commit::{Halves, PIECE_ITEMS_MAX, commit};
use super::workers::Decided;
use crate::cluster::{ChangeError, Cluster, LeadingError};

/// How often deliveries are kept whose plans are in the log's hands: often enough for a deadline,
/// and seldom enough to cost nothing.
const KEEP_INTERVAL: Duration = Duration::from_secs(ANSWER_MAX.as_secs() / 6);

/// Plans in the log's hands, of one term of leading: what a leader that was replaced decided is not
/// written by its successor, which decides anew.
#[derive(Debug)]
pub(super) struct Plans {
    in_flight: JoinSet<Done>,
    deliveries: HashMap<Id, (EvalId, Token)>,
    /// Evaluations whose plans broke, and are no longer in flight.
    broken: Vec<EvalId>,
    /// When those were kept last, by the monotonic clock.
    kept: Duration,
    term: u64,
}

/// What became of a plan.
#[derive(Debug)]
pub(super) struct Done {
    delivery: Delivery,
    end: End,
}

#[derive(Debug)]
enum End {
    /// All of it is in the log.
    Committed,
    /// Some of it, or nothing: to be decided again, on a newer state.
    Overtaken(Refused),
    /// All of it, but plans in flight leave no room for more: to be decided again when one is over.
    CrowdedOut,
    /// Nobody knows, the log does not work, another server leads, or the plan makes no sense.
    Failed(LeadingError),
}

/// What was refused of a plan.
#[derive(Clone, Debug, Default)]
struct Refused {
    /// Placements.
    placements: usize,
    /// A node that refused one, and why.
    by: Option<NodeRejected>,
}

/// What is left to do for an evaluation after the part of its plan that holds.
#[derive(Clone, Debug)]
enum Rest {
    Nothing,
    Overtaken(Refused),
    CrowdedOut,
}

impl From<Rest> for End {
    fn from(rest: Rest) -> Self {
        match rest {
            Rest::Nothing => Self::Committed,
            Rest::Overtaken(refused) => Self::Overtaken(refused),
            Rest::CrowdedOut => Self::CrowdedOut,
        }
    }
}

impl Plans {
    /// No plans yet, of a leader of `term`.
    pub(super) fn new(term: u64) -> Self {
        Self {
            in_flight: JoinSet::new(),
            deliveries: HashMap::new(),
            broken: Vec::new(),
            kept: Duration::ZERO,
            term,
        }
    }

    /// How many are in the log's hands.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The next plan that ended; never, where none is in flight.
    pub(super) async fn next(&mut self) -> Option<Done> {
        match self.in_flight.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, done))) => {
                self.deliveries.remove(&id);
                Some(done)
            }
            Some(Err(error)) => {
                let broken = self.deliveries.remove(&error.id());
                self.broken.extend(broken.map(|(eval, _)| eval));
                // The broker's deadline hands the evaluation out again.
                tracing::error!(%error, "the task that commits a plan panicked");
                None
            }
        }
    }

    /// An evaluation whose plan is in the log's hands is not handed out again, however long the
    /// log takes: what is decided before the plan is seen in the state is decided twice. To be
    /// called before deadlines are looked at.
    pub(super) fn keep(&mut self, leader: &mut Leader, now: Now) {
        for eval in self.broken.drain(..) {
            leader.evaluations.on_plan_over(eval);
        }
        if now.monotonic.saturating_sub(self.kept) < KEEP_INTERVAL {
            return;
        }
        self.kept = now.monotonic;
        for (eval, token) in self.deliveries.values() {
            leader.evaluations.holds(*eval, *token, now);
        }
    }

    /// A worker decided: check, then propose.
    pub(super) fn on_decided(
        &mut self,
        decided: Decided,
        leader: &mut Leader,
        cluster: &Cluster,
        now: Now,
    ) {
        let Decided {
            delivery, decision, ..
        } = decided;
        let (id, token) = (delivery.eval.id, delivery.token);
        let Some(decision) = decision else {
            leader.evaluations.nack(id, token, now);
            return;
        };
        if !leader.evaluations.holds(id, token, now) {
            // It took too long, or the evaluation ended meanwhile: the plan is void.
            return;
        }
        let Decision {
            plan, crowded_out, ..
        } = decision;
        let snapshot = cluster.snapshot();
        if !crowded_out && let Some(eval) = retry::in_vain(&snapshot, &plan) {
            log_overtaken(&delivery);
            leader.evaluations.block_again(eval, token, &snapshot, now);
            return;
        }
        let whole = all_at_once(&snapshot, &delivery);
        if whole && crowded_out {
            leader.evaluations.park(id, token);
            return;
        }
        let decided = plan.placed.len();
        metrics::counter!("drover_placements_decided").increment(decided as u64);
        let commit = if whole {
            plan::Commit::Whole
        } else {
            plan::Commit::Partial
        };
        let planned = leader.evaluations.planned(&snapshot);
        let checked = plan::check(&snapshot, &planned, plan, commit);
        let rest = match checked.rejected.into_iter().next() {
            Some(by) => Rest::Overtaken(Refused {
                placements: decided - checked.plan.placed.len(),
                by: Some(by),
            }),
            None if crowded_out => Rest::CrowdedOut,
            None => return self.propose(leader, cluster, delivery, checked.plan, Rest::Nothing),
        };
        // What holds is committed, but the evaluation is not over.
        let part = PlanApply {
            evals: Vec::new(),
            ..checked.plan
        };
        if is_empty(&part) {
            let end = rest.into();
            self.on_end(Done { delivery, end }, leader, now);
        } else {
            self.propose(leader, cluster, delivery, part, rest);
        }
    }

    /// A plan ended.
    pub(super) fn on_done(&mut self, done: Done, leader: &mut Leader, now: Now) {
        leader.evaluations.on_plan_over(done.delivery.eval.id);
        self.on_end(done, leader, now);
    }

    fn on_end(&mut self, done: Done, leader: &mut Leader, now: Now) {
        let Done { delivery, end } = done;
        let (id, token) = (delivery.eval.id, delivery.token);
        match end {
            End::Committed => {
                log_overtaken(&delivery);
                leader.evaluations.ack(id, token);
            }
            End::Overtaken(Refused { placements, by }) => {
                leader.evaluations.requeue(id, token, placements, by, now);
                if delivery.overtaken.times == AT_ONCE_MAX {
                    let job = &delivery.eval.job_id;
                    tracing::warn!(
                        eval = %id, job,
                        "the plans of this evaluation were refused repeatedly because other plans took \
                         the room; it is retried"
                    );
                }
            }
            End::CrowdedOut => {
                leader.evaluations.park(id, token);
            }
            End::Failed(error) => {
                if matches!(error, LeadingError::NotLeading(_)) {
                    // Its successor decides anew.
                    tracing::debug!(eval = %id, %error, "plan is void");
                } else {
                    tracing::warn!(eval = %id, %error, "plan was not committed");
                }
                leader
                    .evaluations
                    .note_failure(id, format!("its plan was not committed: {error}"));
                leader.evaluations.nack(id, token, now);
            }
        }
    }

    /// Commits a plan; `rest` is what is left to do where the log takes all of it.
    fn propose(
        &mut self,
        leader: &mut Leader,
        cluster: &Cluster,
        delivery: Delivery,
        plan: PlanApply,
        rest: Rest,
    ) {
        let (cluster, term) = (cluster.clone(), self.term);
        let (items_max, halves) = if all_at_once(&cluster.snapshot(), &delivery) {
            (usize::MAX, Halves::Forbidden)
        } else {
            (PIECE_ITEMS_MAX, Halves::Allowed)
        };
        let eval = delivery.eval.id;
        let pieces = pieces::split(plan, items_max);
        leader.evaluations.on_plan(eval, &pieces);
        self.watch(delivery, async move {
            match commit(&cluster, term, pieces, halves).await {
                Ok(()) => rest.into(),
                Err(LeadingError::Change(ChangeError::OutcomeUnknown)) => {
                    tracing::info!(%eval, "the outcome of this plan was unknown; the state shows it now");
                    End::Overtaken(Refused::default())
                }
                Err(LeadingError::Change(ChangeError::Refused(refusal))) => {
                    match refused(refusal) {
                        Ok(refused) => End::Overtaken(refused),
                        Err(refusal) => End::Failed(ChangeError::Refused(refusal).into()),
                    }
                }
                Err(error) => End::Failed(error),
            }
        });
    }

    /// The plan of `delivery` is in the log's hands until `ending` says what became of it.
    fn watch(&mut self, delivery: Delivery, ending: impl Future<Output = End> + Send + 'static) {
        let held = (delivery.eval.id, delivery.token);
        let task = self.in_flight.spawn(async move {
            Done {
                delivery,
                end: ending.await,
            }
        });
        self.deliveries.insert(task.id(), held);
    }
}

/// What a refusal of the state says about a plan that was overtaken.
///
/// # Errors
/// The refusal, where no newer state would have changed it: trying again is no use.
fn refused(refusal: Refusal) -> Result<Refused, Refusal> {
    match refusal {
        Refusal::PlanRejected(nodes) => Ok(Refused {
            placements: nodes.len(),
            by: nodes.into_iter().next(),
        }),
        Refusal::Malformed(_) | Refusal::DuplicateAlloc(_) | Refusal::UnknownSpec(_) => {
            Err(refusal)
        }
        // Something that the plan names has changed, or is over.
        _ => Ok(Refused::default()),
    }
}

/// One line for an evaluation that is over, if plans of it were overtaken.
fn log_overtaken(delivery: &Delivery) {
    let Delivery {
        eval, overtaken, ..
    } = delivery;
    let Overtaken {
        times,
        placements,
        last,
    } = overtaken;
    if *times == 0 {
        return;
    }
    let node = last.as_ref().map(|last| field::display(last.node));
    let reason = last.as_ref().map(|last| field::debug(last.reason));
    tracing::info!(
        eval = %eval.id,
        job = %eval.job_id,
        times,
        placements_refused = placements,
        node,
        reason,
        "plans of an evaluation were overtaken"
    );
}

fn all_at_once(snapshot: &Snapshot, delivery: &Delivery) -> bool {
    snapshot
        .job(&delivery.eval.job_key())
        .is_some_and(|job| job.all_at_once)
}

fn is_empty(plan: &PlanApply) -> bool {
    plan.placed.is_empty()
        && plan.updated.is_empty()
        && plan.changed.is_empty()
        && plan.preempted.is_empty()
}

#[cfg(test)]
mod tests {
    use controlplane_leader::LeaderConfig;
    use controlplane_leader::gc::GcThresholds;
    use hack_testkit::{World, jobs};
    use protocol_model::JobType;

    use super::*;

    #[tokio::test]
    async fn what_is_in_the_logs_hands_is_not_handed_out_again_however_long_it_takes() {
        let mut world = World::new();
        world.register(jobs::job(JobType::Service, "web", 1));
        let config = LeaderConfig {
            silence: Duration::from_secs(10),
            takeover_extra: Duration::ZERO,
            servers: 1,
            gc: GcThresholds::FORCED,
        };
        let at = |seconds| Now {
            monotonic: Duration::from_secs(seconds),
            wall: world.now(),
        };
        let mut leader = Leader::take_over(&world.snapshot(), config, Duration::ZERO, at(0));
        let delivery = leader
            .evaluations
            .dequeue(at(0))
            .expect("the job is to be placed");
        let (eval, token) = (delivery.eval.id, delivery.token);
        let mut plans = Plans::new(1);
        let (tell, told) = tokio::sync::oneshot::channel();
        plans.watch(delivery, async move { told.await.expect("told") });
        let ages = (1..10).map(|turn| turn * (ANSWER_MAX.as_secs() + 30));
        for age in ages.clone() {
            let now = at(age);
            plans.keep(&mut leader, now);
            leader.on_timeout(now);
            assert!(leader.evaluations.dequeue(now).is_none(), "{age}");
        }
        tell.send(End::Overtaken(Refused::default()))
            .expect("it is waited for");
        assert!(plans.next().await.is_some());
        let last = ages.max().expect("some turns");
        assert!(leader.evaluations.holds(eval, token, at(last)));
        // From now on a worker has it, and the deadline is the worker's.
        let late = at(last + ANSWER_MAX.as_secs());
        plans.keep(&mut leader, late);
        leader.on_timeout(late);
        assert!(!leader.evaluations.holds(eval, token, late));
    }
}
