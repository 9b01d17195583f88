//! `/v1/job/:id`: one job, read, changed, stopped, and what belongs to it.

use std::cmp::Reverse;
use std::sync::Arc;

use controlplane_state::command::{JobDeregister, Purge};
use controlplane_state::{Command, Outcome, Refusal, Snapshot, Table};
use protocol_access::NamespaceCapability as N;
use protocol_access::need::{Need, Scope};
use protocol_api::jobs::{
    DispatchJob, DispatchPayload, EvaluateJob, EvaluateRequest, Evaluated, ForcePeriodic,
    JobAllocations, JobDeployments, JobEvaluations, JobSubmissionOf, JobSummary, JobVersions,
    LatestDeployment, PlanJob, ReadJob, ReadJobScale, RevertJob, ScaleJob, SetJobStability,
    StopJob, TagVersion, UntagVersion, UpdateJob,
};
use protocol_model::{Deployment, EvalId, EvalTrigger, JobKey};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::job_register::{self, check_priority, evaluation, runs_now};
use super::route::{Routes, routes};
use super::shown::EvalShown;
use super::{
    alloc, job_dispatch, job_periodic, job_plan, job_revert, job_scale, job_tags, job_versions,
    jobs, lookup,
};
use crate::cluster::ChangeError;

pub(super) const ROUTES: Routes = routes![
    ReadJob => read,
    UpdateJob => job_register::update,
    StopJob => deregister,
    JobAllocations => allocations,
    JobEvaluations => evaluations,
    JobDeployments => deployments,
    LatestDeployment => latest_deployment,
    JobSummary => summary,
    JobVersions => job_versions::versions,
    JobSubmissionOf => job_versions::submission,
    PlanJob => job_plan::plan,
    EvaluateJob => evaluate,
    ForcePeriodic => job_periodic::force,
    DispatchJob => job_dispatch::dispatch,
    DispatchPayload => job_dispatch::dispatch_payload,
    RevertJob => job_revert::revert,
    SetJobStability => job_revert::set_stability,
    TagVersion => job_tags::tag,
    UntagVersion => job_tags::untag,
    ReadJobScale => job_scale::read,
    ScaleJob => job_scale::scale,
];

/// The job that the path names, in the request's namespace.
pub(super) fn key(ask: &Ask) -> JobKey {
    JobKey::new(ask.query.namespace(), ask.parameter("id"))
}

async fn read(ask: &Ask) -> Answered {
    let key = &key(ask);
    ask.read(&[Table::Jobs], |snapshot| {
        lookup::job(snapshot, key).map(Arc::clone)
    })
    .await
}

fn evaluated(eval: Option<EvalId>, job_modify_index: u64, index: u64) -> Evaluated {
    Evaluated {
        eval_create_index: if eval.is_some() { index } else { 0 },
        eval_id: eval.map(|id| id.to_string()).unwrap_or_default(),
        job_modify_index,
        index,
        last_contact: 0,
        known_leader: true,
        next_token: String::new(),
    }
}

/// The rights to stop a job and keep it.
const MAY_STOP: Need = Need::Namespace(
    Scope::Query,
    &[&[N::SubmitJob], &[N::DeregisterJob], &[N::PurgeJob]],
);
/// The rights to stop a job and forget it.
const MAY_PURGE: Need = Need::Namespace(Scope::Query, &[&[N::SubmitJob], &[N::PurgeJob]]);

async fn deregister(ask: &Ask) -> Answered {
    let key = key(ask);
    let purge = if ask.query.flag("purge")? {
        Purge::Forget
    } else {
        Purge::Keep
    };
    ask.require(match purge {
        Purge::Forget => &MAY_PURGE,
        Purge::Keep => &MAY_STOP,
    })?;
    let no_shutdown_delay = ask.query.flag("no_shutdown_delay")?;
    let priority: i32 = ask.query.number("eval_priority")?.unwrap_or(0);
    check_priority(priority)?;
    // What kind of job it is decides which scheduler stops it: read it where it is newest.
    let snapshot = ask.consistent().await?;
    let Some(job) = snapshot.job(&key) else {
        return nothing_to_stop(ask, &snapshot);
    };
    // Allocations that run have to be stopped by somebody, whatever the job says it is.
    let mut allocs = snapshot.allocs_by_job(&key);
    let to_stop = runs_now(job) || allocs.any(|alloc| !alloc.terminal());
    let eval = to_stop.then(|| evaluation(job, priority, EvalTrigger::JobDeregister, ask.now()));
    let command = Command::JobDeregister(JobDeregister {
        key,
        purge,
        eval,
        no_shutdown_delay,
    });
    let changed = match ask.change(command).await {
        // Another caller purged it meanwhile.
        Err(ChangeError::Refused(Refusal::UnknownJob(_))) => {
            return nothing_to_stop(ask, &ask.api.cluster.snapshot());
        }
        changed => changed?,
    };
    let Outcome::JobDeregistered {
        job_modify_index,
        eval,
    } = changed.outcome
    else {
        return Err(HttpError::internal(
            "the state answered a stop with something else",
        ));
    };
    ask.answer(
        &evaluated(eval, job_modify_index, changed.index),
        changed.index,
    )
}

/// A job that is not there is stopped already: no evaluation is made, and nothing is written.
fn nothing_to_stop(ask: &Ask, snapshot: &Snapshot) -> Answered {
    let index = snapshot.table_index(&[Table::Jobs]);
    ask.answer(&evaluated(None, 0, 0), index)
}

async fn evaluate(ask: &Ask) -> Answered {
    let key = &key(ask);
    let request: EvaluateRequest = ask.json_or_default()?;
    if !request.job_id.is_empty() && request.job_id != key.id {
        return Err(HttpError::bad_request("JobID does not match"));
    }
    let snapshot = ask.consistent().await?;
    let job = lookup::job(&snapshot, key)?;
    if job.is_periodic() {
        return Err(HttpError::bad_request("can't evaluate periodic job"));
    }
    if job.is_parameterized() {
        return Err(HttpError::bad_request("can't evaluate parameterized job"));
    }
    let eval = evaluation(job, 0, EvalTrigger::JobRegister, ask.now());
    let (id, force_reschedule) = (eval.id, request.eval_options.force_reschedule);
    let changed = ask
        .change(Command::JobEvaluate {
            eval,
            force_reschedule,
        })
        .await?;
    ask.answer(
        &evaluated(Some(id), job.job_modify_index, changed.index),
        changed.index,
    )
}

/// Allocations of the job; of earlier jobs of the same name only with `?all=true`.
async fn allocations(ask: &Ask) -> Answered {
    let key = &key(ask);
    let all = ask.query.flag("all")?;
    // A job of the same name that is registered anew hides what was there.
    let moved = |snapshot: &Snapshot| {
        let created = snapshot.job(key).map_or(0, |job| job.create_index);
        snapshot.job_allocs_index(key).max(created)
    };
    alloc::answer_found(ask, moved, |snapshot| {
        let created = snapshot.job(key).map(|job| job.create_index);
        snapshot
            .allocs_by_job(key)
            .filter(|alloc| all || created.is_none_or(|index| index == alloc.job_create_index))
            .map(Arc::clone)
            .collect()
    })
    .await
}

async fn evaluations(ask: &Ask) -> Answered {
    let key = &key(ask);
    ask.read(&[Table::Evals], |snapshot| {
        let mut evals: Vec<_> = snapshot.evals_by_job(key).map(Arc::clone).collect();
        evals.sort_by_key(|eval| Reverse((eval.create_index, eval.id)));
        Ok(evals.into_iter().map(EvalShown::new).collect::<Vec<_>>())
    })
    .await
}

async fn deployments(ask: &Ask) -> Answered {
    let key = &key(ask);
    let all = ask.query.flag("all")?;
    ask.read(&[Table::Deployments], |snapshot| {
        let created = snapshot.job(key).map(|job| job.create_index);
        let mut deployments: Vec<Arc<Deployment>> = snapshot
            .deployments_by_job(key)
            .filter(|found| all || created.is_none_or(|index| index == found.job_create_index))
            .map(Arc::clone)
            .collect();
        deployments.sort_by_key(|deployment| Reverse((deployment.create_index, deployment.id)));
        Ok(deployments)
    })
    .await
}

/// The newest deployment, or `null`.
async fn latest_deployment(ask: &Ask) -> Answered {
    let key = &key(ask);
    ask.read(&[Table::Deployments], |snapshot| {
        Ok(snapshot.latest_deployment(key).map(Arc::clone))
    })
    .await
}

async fn summary(ask: &Ask) -> Answered {
    let key = &key(ask);
    ask.read(&[Table::Jobs, Table::JobSummaries], |snapshot| {
        Ok(jobs::summary(snapshot, lookup::job(snapshot, key)?))
    })
    .await
}
