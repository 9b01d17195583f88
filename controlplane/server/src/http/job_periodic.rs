//! `/v1/job/:id/periodic/force`: a launch of a periodic job that a caller wants now.

use std::sync::Arc;

use controlplane_state::command::{ChildJob, Launch, LaunchCause, PeriodicLaunch};
use controlplane_state::{Command, LaunchResult, Launched, Outcome, Refusal};
use protocol_api::jobs::Forced;
use protocol_model::{EvalTrigger, Job};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::job::key;
use super::job_register::evaluation;
use super::lookup;

/// How often a launch is built anew because its template changed meanwhile.
const TRIES_MAX: usize = 8;

/// Launches although the job prohibits overlap; twice in a second is the same launch.
pub(super) async fn force(ask: &Ask) -> Answered {
    let key = &key(ask);
    for _ in 0..TRIES_MAX {
        let snapshot = ask.consistent().await?;
        let job = lookup::job(&snapshot, key)?;
        if !job.is_periodic() {
            let refused = "can't force launch non-periodic job";
            return Err(HttpError::bad_request(refused));
        }
        if !job.launches_by_time() {
            return Err(not_tracked(job));
        }
        let launches = vec![launch(ask, job)];
        let command = Command::PeriodicLaunch(PeriodicLaunch { launches });
        let changed = ask.change(command).await?;
        let Outcome::PeriodicLaunched(results) = changed.outcome else {
            return Err(nonsense());
        };
        match results.into_iter().next() {
            Some(LaunchResult::Launched(launched) | LaunchResult::Repeated(launched)) => {
                return ask.answer(&forced(&launched, changed.index), changed.index);
            }
            Some(LaunchResult::NotTracked) => return Err(not_tracked(job)),
            // Built anew from what the job is now.
            Some(LaunchResult::ParentChanged) => {}
            Some(LaunchResult::Denied(denied)) => return Err(Refusal::JobDenied(denied).into()),
            Some(LaunchResult::Earlier | LaunchResult::Overlaps) | None => return Err(nonsense()),
        }
    }
    Err(HttpError::internal(format!(
        "job {:?} changed {TRIES_MAX} times while it was launched; try again",
        key.id
    )))
}

fn launch(ask: &Ask, job: &Job) -> Launch {
    let at = ask.now().floor_to_second();
    let child = job.periodic_child(at);
    Launch {
        child: ChildJob {
            spec: child.spec_hash(),
            parent_index: job.job_modify_index,
            eval: Some(evaluation(&child, 0, EvalTrigger::PeriodicJob, ask.now())),
            job: Arc::new(child),
        },
        at,
        cause: LaunchCause::Forced,
    }
}

fn forced(launched: &Launched, index: u64) -> Forced {
    let eval_id = launched.eval.map(|id| id.to_string()).unwrap_or_default();
    Forced {
        eval_create_index: if eval_id.is_empty() {
            0
        } else {
            launched.create_index
        },
        eval_id,
        index,
    }
}

fn not_tracked(job: &Job) -> HttpError {
    let (id, namespace) = (&job.id, job.key().namespace);
    HttpError::bad_request(format!(
        "force launch for job {id:?} failed: can't force run non-tracked job {id:?} ({namespace})"
    ))
}

fn nonsense() -> HttpError {
    HttpError::internal("the state answered a launch with something else")
}
