//! `/v1/job/:id/revert` and `/stable`: earlier versions of a job.

use std::sync::Arc;

use controlplane_state::command::JobRegister;
use controlplane_state::{Command, Refusal};
use protocol_api::jobs::{RevertRequest, StableRequest};
use protocol_model::{EvalTrigger, Job, JobKey};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::job_register::{
    BUILDS_MAX, changes_too_often, check_registration_allowed, evaluation, registered, runs_now,
    warnings,
};
use super::{job, lookup};
use crate::cluster::ChangeError;

/// The job of the path, which the body names too.
fn named(ask: &Ask, id: &str) -> Result<JobKey, HttpError> {
    let key = job::key(ask);
    if id.is_empty() {
        return Err(HttpError::bad_request("JobID must be specified"));
    }
    if id != key.id {
        return Err(HttpError::bad_request("Job ID does not match"));
    }
    Ok(key)
}

/// Registers an earlier version again. `apply` refuses it where the job changed since it was built,
/// and it is built anew.
pub(super) async fn revert(ask: &Ask) -> Answered {
    let request: RevertRequest = ask.json()?;
    let key = named(ask, &request.job_id)?;
    check_registration_allowed(ask)?;
    for _ in 0..BUILDS_MAX {
        let snapshot = ask.consistent().await?;
        let current = lookup::job(&snapshot, &key)?;
        let version = request.job_version;
        if version == current.version {
            return Err(HttpError::bad_request("can't revert to current version"));
        }
        let Some(old) = snapshot.job_version(&key, version) else {
            return Err(Refusal::UnknownJobVersion { key, version }.into());
        };
        if let Some(wanted) = request.enforce_prior_version
            && wanted != current.version
        {
            return Err(HttpError::bad_request(format!(
                "Current job has version {}; enforcing version {wanted}",
                current.version
            )));
        }
        let job = Job::clone(old);
        let warnings = warnings(&snapshot, &job);
        let eval = runs_now(&job).then(|| evaluation(&job, 0, EvalTrigger::JobRegister, ask.now()));
        let command = Command::JobRegister(JobRegister {
            spec: job.spec_hash(),
            job: Arc::new(job),
            eval,
            enforce_index: Some(current.job_modify_index),
            submission: snapshot.job_submission(&key, version).cloned(),
        });
        match ask.change(command).await {
            Err(ChangeError::Refused(Refusal::JobModified { .. })) => {}
            changed => return registered(ask, &changed?, warnings),
        }
    }
    Err(changes_too_often(&key))
}

/// Marks a version as one that automatic reverts go back to, or not.
pub(super) async fn set_stability(ask: &Ask) -> Answered {
    let request: StableRequest = ask.json()?;
    let key = named(ask, &request.job_id)?;
    let command = Command::JobStability {
        key,
        version: request.job_version,
        stable: request.stable,
    };
    let changed = ask.change(command).await?;
    ask.done(changed.index)
}
