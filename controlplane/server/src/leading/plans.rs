//! The plan queue: decisions are checked against the newest state and proposed, several at a time
//! (`commit`). A plan that another one overtook is refused by the state itself and scheduled again.

use std::collections::HashMap;
use std::time::Duration;

use controlplane_leader::broker::{ANSWER_MAX, Delivery, Token};
use controlplane_leader::{Leader, Now, plan, retry};
use controlplane_scheduler::Decision;
use controlplane_state::command::PlanApply;
use controlplane_state::{Refusal, Snapshot};
use protocol_model::{EvalId, JobType};
use tokio::task::{Id, JoinSet};

use super::commit::{PIECE_ITEMS_MAX, commit};
use super::workers::{Decided, Workers};
use crate::cluster::{ChangeError, Cluster, LeadingError};

/// Attempts at one delivery: services as Nomad, batch jobs fewer, because throughput matters more.
const ATTEMPTS_MAX: u32 = 5;
const ATTEMPTS_BATCH_MAX: u32 = 2;

/// How often deliveries are kept whose plans are in the log's hands: often enough for a deadline,
/// and seldom enough to cost nothing.
const KEEP_INTERVAL: Duration = Duration::from_secs(ANSWER_MAX.as_secs() / 6);

/// Plans in the log's hands, of one term of leading: what a leader that was replaced decided is not
/// written by its successor, which decides anew.
#[derive(Debug)]
pub(super) struct Plans {
    in_flight: JoinSet<Done>,
    deliveries: HashMap<Id, (EvalId, Token)>,
    /// When those were kept last, by the monotonic clock.
    kept: Duration,
    term: u64,
}

/// What became of a plan.
#[derive(Debug)]
pub(super) struct Done {
    delivery: Delivery,
    attempt: u32,
    end: End,
}

#[derive(Debug)]
enum End {
    /// All of it is in the log.
    Committed,
    /// Some of it, or nothing: schedule again, on a newer state.
    Again,
    /// Nobody knows, the log does not work, or another server leads.
    Failed(LeadingError),
}

impl Plans {
    /// No plans yet, of a leader of `term`.
    pub(super) fn new(term: u64) -> Self {
        Self {
            in_flight: JoinSet::new(),
            deliveries: HashMap::new(),
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
                self.deliveries.remove(&error.id());
                // The broker's deadline hands the evaluation out again.
                tracing::error!(%error, "a plan broke");
                None
            }
        }
    }

    /// An evaluation whose plan is in the log's hands is not handed out again, however long the
    /// log takes: what is decided before the plan is seen in the state is decided twice. To be
    /// called before deadlines are looked at.
    pub(super) fn keep(&mut self, leader: &mut Leader, now: Now) {
        if now.monotonic.saturating_sub(self.kept) < KEEP_INTERVAL {
            return;
        }
        self.kept = now.monotonic;
        for (eval, token) in self.deliveries.values() {
            leader.holds(*eval, *token, now);
        }
    }

    /// A worker decided: check, then propose.
    pub(super) fn on_decided(
        &mut self,
        decided: Decided,
        leader: &mut Leader,
        workers: &Workers,
        cluster: &Cluster,
        now: Now,
    ) {
        let Decided {
            delivery,
            attempt,
            decision,
        } = decided;
        let Some(Decision { plan, .. }) = decision else {
            leader.nack(delivery.eval.id, delivery.token, now);
            return;
        };
        if !leader.holds(delivery.eval.id, delivery.token, now) {
            // It took too long, or the evaluation ended meanwhile: the plan is void.
            return;
        }
        let snapshot = cluster.snapshot();
        if let Some(eval) = retry::in_vain(&snapshot, &plan) {
            leader.block_again(eval, delivery.token, &snapshot, now);
            return;
        }
        let commit = if all_at_once(&snapshot, &delivery) {
            plan::Commit::Whole
        } else {
            plan::Commit::Partial
        };
        let checked = plan::check(&snapshot, plan, commit);
        if checked.rejected.is_empty() {
            self.propose(cluster, delivery, attempt, checked.plan, End::Committed);
            return;
        }
        for rejected in &checked.rejected {
            tracing::info!(node = %rejected.node, reason = ?rejected.reason, "plan refused in part");
        }
        // What holds is committed, but the evaluation is not over.
        let part = PlanApply {
            evals: Vec::new(),
            ..checked.plan
        };
        if is_empty(&part) {
            self.again(
                Done {
                    delivery,
                    attempt,
                    end: End::Again,
                },
                leader,
                workers,
                cluster,
                now,
            );
        } else {
            self.propose(cluster, delivery, attempt, part, End::Again);
        }
    }

    /// A plan ended.
    pub(super) fn on_done(
        &mut self,
        done: Done,
        leader: &mut Leader,
        workers: &Workers,
        cluster: &Cluster,
        now: Now,
    ) {
        match &done.end {
            End::Committed => {
                leader.ack(done.delivery.eval.id, done.delivery.token);
            }
            End::Again => self.again(done, leader, workers, cluster, now),
            End::Failed(error) => {
                if matches!(error, LeadingError::NotLeading(_)) {
                    // Its successor decides anew.
                    tracing::debug!(eval = %done.delivery.eval.id, %error, "plan is void");
                } else {
                    tracing::warn!(eval = %done.delivery.eval.id, %error, "plan was not committed");
                }
                let reason = format!("its plan was not committed: {error}");
                leader.note_failure(done.delivery.eval.id, reason);
                leader.nack(done.delivery.eval.id, done.delivery.token, now);
            }
        }
    }

    fn again(
        &mut self,
        done: Done,
        leader: &mut Leader,
        workers: &Workers,
        cluster: &Cluster,
        now: Now,
    ) {
        let Done {
            delivery, attempt, ..
        } = done;
        let attempts_max = match delivery.eval.job_type {
            JobType::Batch | JobType::Sysbatch => ATTEMPTS_BATCH_MAX,
            JobType::Service | JobType::System => ATTEMPTS_MAX,
        };
        if attempt >= attempts_max || !leader.holds(delivery.eval.id, delivery.token, now) {
            leader.nack(delivery.eval.id, delivery.token, now);
            return;
        }
        if let Err(delivery) = workers.schedule(delivery, cluster.snapshot(), attempt + 1) {
            leader.nack(delivery.eval.id, delivery.token, now);
        }
    }

    fn propose(
        &mut self,
        cluster: &Cluster,
        delivery: Delivery,
        attempt: u32,
        plan: PlanApply,
        committed: End,
    ) {
        let (cluster, term) = (cluster.clone(), self.term);
        // All or nothing can only be one entry.
        let items_max = if all_at_once(&cluster.snapshot(), &delivery) {
            usize::MAX
        } else {
            PIECE_ITEMS_MAX
        };
        let eval = delivery.eval.id;
        self.watch(delivery, attempt, async move {
            match commit(&cluster, term, plan, items_max).await {
                Ok(()) => committed,
                Err(LeadingError::Change(ChangeError::Refused(Refusal::PlanRejected(nodes)))) => {
                    tracing::debug!(%eval, ?nodes, "plan was overtaken");
                    End::Again
                }
                Err(LeadingError::Change(ChangeError::Refused(refusal))) => {
                    tracing::info!(%eval, %refusal, "plan refused");
                    End::Again
                }
                Err(LeadingError::Change(ChangeError::OutcomeUnknown)) => {
                    tracing::info!(%eval, "the log stalled: the state shows now what it took");
                    End::Again
                }
                Err(error) => End::Failed(error),
            }
        });
    }

    /// The plan of `delivery` is in the log's hands until `ending` says what became of it.
    fn watch(
        &mut self,
        delivery: Delivery,
        attempt: u32,
        ending: impl Future<Output = End> + Send + 'static,
    ) {
        let held = (delivery.eval.id, delivery.token);
        let task = self.in_flight.spawn(async move {
            Done {
                delivery,
                attempt,
                end: ending.await,
            }
        });
        self.deliveries.insert(task.id(), held);
    }
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
        let delivery = leader.dequeue(at(0)).expect("the job is to be placed");
        let (eval, token) = (delivery.eval.id, delivery.token);
        let mut plans = Plans::new(1);
        let (tell, told) = tokio::sync::oneshot::channel();
        plans.watch(delivery, 1, async move { told.await.expect("told") });
        let ages = (1..10).map(|turn| turn * (ANSWER_MAX.as_secs() + 30));
        for age in ages.clone() {
            let now = at(age);
            plans.keep(&mut leader, now);
            leader.on_timeout(now);
            assert!(leader.dequeue(now).is_none(), "{age}");
        }
        tell.send(End::Again).expect("it is waited for");
        assert!(plans.next().await.is_some());
        let last = ages.max().expect("some turns");
        assert!(leader.holds(eval, token, at(last)));
        // From now on a worker has it, and the deadline is the worker's.
        let late = at(last + ANSWER_MAX.as_secs());
        plans.keep(&mut leader, late);
        leader.on_timeout(late);
        assert!(!leader.holds(eval, token, late));
    }
}
