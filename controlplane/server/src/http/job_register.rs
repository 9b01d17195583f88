//! Registering and validating a job: what a body becomes before it is proposed, and what the caller
//! is told about it.

use std::sync::Arc;

use axum::http::StatusCode;
use controlplane_scheduler::memory_warnings;
use controlplane_state::command::JobRegister;
use controlplane_state::{Command, Outcome, Refusal, Snapshot};
use protocol_access::{HostVolumeCapability, Requirement};
use protocol_api::jobs::{JobRequest, Registered, Validated};
use protocol_model::{
    EvalId, EvalTrigger, Evaluation, Job, JobKey, JobSubmission, NotForRegion,
    SUBMISSION_BYTES_MAX, UnixNanos,
};
use uuid::Uuid;

use super::Api;
use super::ask::Ask;
use super::error::{Answered, HttpError};
use crate::cluster::{ChangeError, Changed};

/// How many times a change is built that names the job it was made from. Each repetition means that
/// somebody else changed the job meanwhile.
pub(super) const BUILDS_MAX: usize = 8;

/// The region that a completed job names where its author named none.
const ANY_REGION: &str = "global";

/// A canonical, valid job and what the user has to be told about it.
pub(super) struct Prepared {
    /// The job.
    pub(super) job: Job,
    /// What of it has no effect, in the words of the answer.
    pub(super) warnings: String,
}

/// A new job, or a new version of the one that the body names.
pub(super) async fn register(ask: &Ask) -> Answered {
    write(ask, None).await
}

/// A new version of the job that the path names.
pub(super) async fn update(ask: &Ask) -> Answered {
    write(ask, Some(ask.parameter("id"))).await
}

async fn write(ask: &Ask, id: Option<&str>) -> Answered {
    let request: JobRequest = ask.json()?;
    let eval_priority = request.eval_priority;
    let preserve_counts = request.preserve_counts;
    let enforce_index = request.enforce_index.then_some(request.job_modify_index);
    let (submission, too_large) = bounded(request.submission);
    let Prepared {
        mut job,
        mut warnings,
    } = prepare(ask, request.job, id).await?;
    check_host_volumes(ask, &job)?;
    if let Some(too_large) = too_large {
        if !warnings.is_empty() {
            warnings.push('\n');
        }
        warnings.push_str(&too_large);
    }
    check_priority(eval_priority)?;
    check_registration_allowed(ask)?;
    for _ in 0..BUILDS_MAX {
        let made_from = if preserve_counts {
            Some(keep_counts(ask, &mut job).await?)
        } else {
            None
        };
        let eval = runs_now(&job)
            .then(|| evaluation(&job, eval_priority, EvalTrigger::JobRegister, ask.now()));
        let command = Command::JobRegister(JobRegister {
            spec: job.spec_hash(),
            job: Arc::new(job.clone()),
            eval,
            enforce_index: enforce_index.or(made_from),
            submission: submission.clone(),
        });
        match ask.change(command).await {
            Err(ChangeError::Refused(Refusal::JobModified { .. })) if enforce_index.is_none() => {}
            changed => return registered(ask, &changed?, warnings),
        }
    }
    Err(changes_too_often(&job.key()))
}

/// The refusal of a change whose job was changed by others each time that it was built.
pub(super) fn changes_too_often(key: &JobKey) -> HttpError {
    let text = format!("job {key} changed {BUILDS_MAX} times meanwhile; try again");
    HttpError::new(StatusCode::CONFLICT, text)
}

/// The answer to what registers a version of a job.
pub(super) fn registered(ask: &Ask, changed: &Changed, warnings: String) -> Answered {
    let Outcome::JobRegistered {
        job_modify_index,
        eval,
        ..
    } = changed.outcome
    else {
        return Err(HttpError::internal(
            "the state answered a registration with something else",
        ));
    };
    let answer = Registered {
        eval_create_index: if eval.is_some() { changed.index } else { 0 },
        eval_id: eval.map(|id| id.to_string()).unwrap_or_default(),
        job_modify_index,
        warnings,
        index: changed.index,
        last_contact: 0,
        known_leader: true,
        next_token: String::new(),
    };
    ask.answer(&answer, changed.index)
}

/// A submission that is kept, or why it is not.
fn bounded(submission: Option<JobSubmission>) -> (Option<Arc<JobSubmission>>, Option<String>) {
    match submission.map(|submission| (submission.bytes(), submission)) {
        None | Some((0, _)) => (None, None),
        Some((bytes, submission)) if bytes <= SUBMISSION_BYTES_MAX => {
            (Some(Arc::new(submission)), None)
        }
        Some((bytes, _)) => {
            let problem = format!(
                "the job's source of {bytes} bytes is not kept: at most {SUBMISSION_BYTES_MAX} are"
            );
            (None, Some(problem))
        }
    }
}

/// Gives each group the count that it has in the registered job, where it is in there. Answers the
/// `JobModifyIndex` of that job; 0 = there is none.
async fn keep_counts(ask: &Ask, job: &mut Job) -> Result<u64, HttpError> {
    let snapshot = ask.consistent().await?;
    let Some(registered) = snapshot.job(&job.key()) else {
        return Ok(0);
    };
    for group in &mut job.task_groups {
        if let Some(known) = registered.task_group(&group.name) {
            group.count = known.count;
        }
    }
    Ok(registered.job_modify_index)
}

/// `POST /v1/validate/job`: every mistake at once, those included that only the state knows; never
/// an error status for a job that can be read.
pub(super) async fn validate(ask: &Ask) -> Answered {
    let request: JobRequest = ask.json()?;
    let snapshot = ask.consistent().await?;
    let mut job = canonical(ask, request.job, &snapshot)?;
    let elsewhere = copy_for_region(ask, &mut job).err();
    let mut mistakes = Vec::new();
    let mut error = String::new();
    if let Err(errors) = job.validate() {
        mistakes.extend(errors.errors.iter().map(ToString::to_string));
        error = errors.to_string();
    }
    if let Some(elsewhere) = elsewhere {
        let elsewhere = elsewhere.to_string();
        if !error.is_empty() {
            error.push('\n');
        }
        error.push_str(&elsewhere);
        mistakes.push(elsewhere);
    }
    // A missing id is among them already.
    if !job.id.is_empty()
        && let Err(refusal) = snapshot.check_job(&job, None)
    {
        let refusal = refusal.to_string();
        if !error.is_empty() {
            error.push('\n');
        }
        error.push_str(&refusal);
        mistakes.push(refusal);
    }
    let answer = Validated {
        driver_config_validated: true,
        validation_errors: (!mistakes.is_empty()).then_some(mistakes),
        error,
        warnings: warnings(&snapshot, &job),
    };
    ask.answer(&answer, 0)
}

/// Completes and checks the job of a body. `id` is the one in the path, where there is one.
///
/// # Errors
/// 400 with every mistake of the job.
pub(super) async fn prepare(
    ask: &Ask,
    job: Option<Job>,
    id: Option<&str>,
) -> Result<Prepared, HttpError> {
    let cluster = &ask.api.cluster;
    // A job that names no pool gets that of its namespace, which may have changed a moment ago.
    let names_pool = job.as_ref().is_some_and(|job| !job.node_pool.is_empty());
    let snapshot = match names_pool {
        true => cluster.snapshot(),
        false => cluster.consistent().await?,
    };
    let mut job = canonical(ask, job, &snapshot)?;
    copy_for_region(ask, &mut job).map_err(|error| HttpError::bad_request(error.to_string()))?;
    if id.is_some_and(|id| id != job.id) {
        return Err(HttpError::bad_request("Job ID does not match name"));
    }
    job.validate()
        .map_err(|errors| HttpError::bad_request(errors.to_string()))?;
    let warnings = warnings(&snapshot, &job);
    Ok(Prepared { job, warnings })
}

fn canonical(ask: &Ask, job: Option<Job>, snapshot: &Snapshot) -> Result<Job, HttpError> {
    let mut job = job.ok_or_else(|| HttpError::bad_request("Job must be specified"))?;
    let region = ask.api.config.region.as_str();
    // A file for several regions may leave open which one it is sent to.
    let open = !job.regions().is_empty() && job.region == ANY_REGION;
    if job.region.is_empty() || open {
        region.clone_into(&mut job.region);
    }
    if job.region != region {
        return Err(HttpError::not_found("No path to region"));
    }
    if job.namespace.is_empty() {
        ask.query.namespace().clone_into(&mut job.namespace);
    }
    ask.settle(&job.namespace)?;
    if job.node_pool.is_empty()
        && let Some(namespace) = snapshot.namespace(&job.namespace)
    {
        namespace.default_pool().clone_into(&mut job.node_pool);
    }
    job.canonicalize();
    // The state's to fill in, whatever a caller sends back of an earlier answer.
    job.nomad_token_id.clear();
    job.version_tag = None;
    job.submit_time = UnixNanos::ZERO;
    Ok(job)
}

/// Makes a job that names several regions the copy for ours.
fn copy_for_region(ask: &Ask, job: &mut Job) -> Result<(), NotForRegion> {
    job.copy_for_region(ask.api.config.region.as_str())
}

/// The warning of a job that names regions that it does not get to.
fn elsewhere(job: &Job) -> Option<String> {
    let others = job.regions().iter().filter(|it| it.name != job.region);
    let others: Vec<String> = others.map(|it| format!("{:?}", it.name)).collect();
    (!others.is_empty()).then(|| {
        let (own, others) = (&job.region, others.join(", "));
        format!(
            "multiregion: registered in region {own:?} only, not in {others}: \
             this release does not reach other regions"
        )
    })
}

/// Whether registering makes an evaluation: templates are launched later.
pub(super) fn runs_now(job: &Job) -> bool {
    !job.is_template()
}

/// A new evaluation of a job, made at `now`. `priority` 0 means the job's own.
pub(super) fn evaluation(
    job: &Job,
    priority: i32,
    trigger: EvalTrigger,
    now: UnixNanos,
) -> Evaluation {
    let priority = if priority == 0 {
        job.priority
    } else {
        priority
    };
    let id = EvalId(Uuid::new_v4());
    Evaluation::new(id, &job.key(), job.job_type, priority, trigger, now)
}

/// Refuses an evaluation priority that is out of range; 0 means the job's own.
///
/// # Errors
/// 400.
pub(super) fn check_priority(priority: i32) -> Result<(), HttpError> {
    if (0..=100).contains(&priority) {
        return Ok(());
    }
    Err(HttpError::bad_request(
        "eval priority must be between 1 and 100 inclusively",
    ))
}

/// Refuses a job that mounts a host volume which the caller may not mount: to write in it needs
/// `mount-readwrite`, to read `mount-readonly` or that. The leader looks once more.
fn check_host_volumes(ask: &Ask, job: &Job) -> Result<(), HttpError> {
    let volumes = job.task_groups.iter().flat_map(|it| it.volumes.values());
    for volume in volumes.filter(|it| it.volume_type == "host") {
        let mut any = vec![HostVolumeCapability::MountReadwrite];
        if volume.read_only {
            any.push(HostVolumeCapability::MountReadonly);
        }
        ask.require_elsewhere(Requirement::HostVolume {
            volume: volume.source.clone(),
            any,
        })?;
    }
    Ok(())
}

/// Refuses registrations while the operator's switch says so, except to management tokens.
pub(super) fn check_registration_allowed(ask: &Ask) -> Result<(), HttpError> {
    let Api { cluster, .. } = &ask.api;
    let rejected = cluster
        .snapshot()
        .scheduler_config()
        .reject_job_registration;
    if rejected && !ask.is_manager() {
        return Err(HttpError::new(
            StatusCode::FORBIDDEN,
            "job registration, dispatch, and scale are disabled by the scheduler configuration",
        ));
    }
    Ok(())
}

/// The parts of a job that have no effect, as clients print it.
pub(super) fn warnings(snapshot: &Snapshot, job: &Job) -> String {
    warnings_and(job, memory_warnings(snapshot, job))
}

/// The same with others behind it.
pub(super) fn warnings_and(job: &Job, others: Vec<String>) -> String {
    let unhonoured = job.unhonoured();
    let warnings = unhonoured.iter().map(ToString::to_string);
    let warnings = warnings.chain(elsewhere(job));
    let warnings: Vec<String> = warnings.chain(others).collect();
    if warnings.is_empty() {
        return String::new();
    }
    let plural = if warnings.len() == 1 { "" } else { "s" };
    let mut text = format!("{} warning{plural}:\n", warnings.len());
    for warning in warnings {
        text.push_str("\n* ");
        text.push_str(&warning);
    }
    text
}
