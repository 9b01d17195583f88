//! The end of a rollout that fails: its text, and the version that its job goes back to.
//!
//! Used by the leader for deadlines and by the API for operators.

use std::sync::Arc;

use controlplane_state::Tables;
use controlplane_state::command::{DeploymentChange, JobRegister};
use protocol_model::{
    Deployment, DeploymentStatus, EvalId, EvalTrigger, Evaluation, Job, UnixNanos,
};

/// Whether the job goes back to its last stable version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reverts {
    /// Its groups do not ask for it.
    Never,
    /// If it has one that is not the same.
    IfStable,
}

/// The end of a rollout that fails.
#[derive(Clone, PartialEq, Debug)]
pub struct Failed {
    /// The deployment's end, from the status that it has in the state.
    pub change: DeploymentChange,
    /// The version that the job goes back to, as a registration for the same entry.
    pub revert: Option<JobRegister>,
}

impl Failed {
    /// The version that is gone back to.
    pub fn reverts_to(&self) -> Option<u64> {
        self.revert.as_ref().map(|register| register.job.version)
    }
}

/// Fails a rollout for a reason. `stuck`: why the state refused to go back before.
pub fn failed(
    state: &Tables,
    deployment: &Deployment,
    (reason, stuck): (&str, Option<&str>),
    reverts: Reverts,
) -> Failed {
    let key = deployment.job_key();
    let stable = current(state, deployment)
        .filter(|job| !job.stop && job.version == deployment.job_version)
        .filter(|_| reverts == Reverts::IfStable)
        .and_then(|_| last_stable(state, deployment));
    let description = match (&stable, stuck) {
        (Some(job), Some(why)) => format!(
            "{reason} - rolling back to job version {} was refused: {why}",
            job.version
        ),
        (Some(job), None) => format!("{reason} - rolling back to job version {}", job.version),
        (None, _) if reverts == Reverts::IfStable => {
            format!("{reason} - no stable job version to auto revert to")
        }
        (None, _) => reason.to_owned(),
    };
    let stable = stable.filter(|_| stuck.is_none());
    Failed {
        change: DeploymentChange {
            id: deployment.id,
            status: DeploymentStatus::Failed,
            description,
            from: Some(deployment.status),
        },
        revert: stable.map(|job| JobRegister {
            spec: job.spec_hash(),
            submission: state.job_submission(&key, job.version).cloned(),
            job,
            eval: None,
            enforce_index: None,
        }),
    }
}

/// The evaluation that goes on with a deployment's job; `None` where that is gone.
pub fn watcher_eval(
    state: &Tables,
    deployment: &Deployment,
    id: EvalId,
    now: UnixNanos,
) -> Option<Evaluation> {
    let job = current(state, deployment)?;
    let trigger = EvalTrigger::DeploymentWatcher;
    let mut eval = Evaluation::new(id, &job.key(), job.job_type, job.priority, trigger, now);
    eval.deployment_id = Some(deployment.id);
    Some(eval)
}

fn current<'s>(state: &'s Tables, deployment: &Deployment) -> Option<&'s Arc<Job>> {
    state
        .job(&deployment.job_key())
        .filter(|job| job.create_index == deployment.job_create_index)
}

/// The newest version before the deployment's that was rolled out well and is not the same.
fn last_stable(state: &Tables, deployment: &Deployment) -> Option<Arc<Job>> {
    let key = deployment.job_key();
    let failed = state.job_version(&key, deployment.job_version)?.spec_hash();
    state
        .job_versions(&key)
        .find(|job| {
            job.stable
                && job.version < deployment.job_version
                && job.create_index == deployment.job_create_index
                && job.spec_hash() != failed
        })
        .cloned()
}
