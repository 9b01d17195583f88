//! The plan queue: decisions are checked against the newest state and proposed, several at a time.
//! A plan that another one overtook is refused by the state itself and scheduled again.

use controlplane_leader::broker::Delivery;
use controlplane_leader::{Leader, Now, pieces, plan};
use controlplane_scheduler::Decision;
use controlplane_state::command::PlanApply;
use controlplane_state::{Command, Refusal, Snapshot};
use protocol_model::JobType;
use tokio::task::JoinSet;

use super::workers::{Decided, Workers};
use crate::cluster::{ChangeError, Cluster, LeadingError};

/// Attempts at one delivery: services as Nomad, batch jobs fewer, because throughput matters more.
const ATTEMPTS_MAX: u32 = 5;
const ATTEMPTS_BATCH_MAX: u32 = 2;

/// Placements and changes in one entry: a few hundred kilobytes of log, a few milliseconds of
/// apply.
const PIECE_ITEMS_MAX: usize = 2000;

/// Plans in the log's hands, of one term of leading: what a leader that was replaced decided is not
/// written by its successor, which decides anew.
#[derive(Debug)]
pub(super) struct Plans {
    in_flight: JoinSet<Done>,
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
            term,
        }
    }

    /// How many are in the log's hands.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The next plan that ended; never, where none is in flight.
    pub(super) async fn next(&mut self) -> Option<Done> {
        match self.in_flight.join_next().await {
            None => std::future::pending().await,
            Some(Ok(done)) => Some(done),
            Some(Err(error)) => {
                // The broker's deadline hands the evaluation out again.
                tracing::error!(%error, "a plan broke");
                None
            }
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
        self.in_flight.spawn(async move {
            let end = match commit(&cluster, term, plan, items_max).await {
                Ok(()) => committed,
                Err(LeadingError::Change(ChangeError::Refused(Refusal::PlanRejected(nodes)))) => {
                    tracing::debug!(eval = %delivery.eval.id, ?nodes, "plan was overtaken");
                    End::Again
                }
                Err(LeadingError::Change(ChangeError::Refused(refusal))) => {
                    tracing::info!(eval = %delivery.eval.id, %refusal, "plan refused");
                    End::Again
                }
                Err(error) => End::Failed(error),
            };
            Done {
                delivery,
                attempt,
                end,
            }
        });
    }
}

/// Commits a plan, in pieces where it is large; pieces that are still too large for the log are
/// halved. What was committed before an error stays: the evaluation is open, and the next attempt
/// finds it.
async fn commit(
    cluster: &Cluster,
    term: u64,
    plan: PlanApply,
    items_max: usize,
) -> Result<(), LeadingError> {
    let mut waiting: Vec<PlanApply> = pieces::split(plan, items_max);
    waiting.reverse();
    while let Some(piece) = waiting.pop() {
        let count = pieces::items(&piece);
        let splits = count > 1 && items_max != usize::MAX;
        // Kept only where it may be needed again.
        let again = splits.then(|| piece.clone());
        let command = Command::PlanApply(Box::new(piece));
        match cluster.change_as_leader(command, term).await {
            Ok(_) => {}
            Err(LeadingError::Change(ChangeError::TooLarge(reason))) => {
                let Some(piece) = again else {
                    return Err(ChangeError::TooLarge(reason).into());
                };
                let halves = pieces::split(piece, count / 2);
                if halves.len() < 2 {
                    return Err(ChangeError::TooLarge(reason).into());
                }
                waiting.extend(halves.into_iter().rev());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
