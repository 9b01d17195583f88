//! `/v1/job/:id/scale`: the counts of groups, read and changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::command::{JobRegister, JobScale as ScaleCommand};
use controlplane_state::{Command, Refusal, ScaleRefusal, Snapshot, Table};
use protocol_api::jobs::{GroupScale, JobScale, ScaleRequest};
use protocol_model::{ClientStatus, EvalTrigger, Job, JobKey, ScalingEvent};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::job_register::{
    BUILDS_MAX, changes_too_often, check_registration_allowed, evaluation, registered, runs_now,
};
use super::{job, lookup};
use crate::cluster::ChangeError;

pub(super) async fn read(ask: &Ask) -> Answered {
    let key = &job::key(ask);
    ask.read(&[Table::Jobs, Table::Allocs], |snapshot| {
        let job = lookup::job(snapshot, key)?;
        Ok(JobScale {
            job_id: key.id.clone(),
            namespace: key.namespace.clone(),
            job_create_index: job.create_index,
            job_modify_index: job.job_modify_index,
            job_stopped: job.stop,
            task_groups: groups(snapshot, key, job),
        })
    })
    .await
}

fn groups(snapshot: &Snapshot, key: &JobKey, job: &Job) -> BTreeMap<String, GroupScale> {
    let events = snapshot.scaling_events(key);
    let empty = |group: &protocol_model::TaskGroup| GroupScale {
        desired: group.count.map_or(0, i64::from),
        events: events
            .and_then(|events| events.get(&group.name))
            .cloned()
            .unwrap_or_default(),
        ..GroupScale::default()
    };
    let groups = job.task_groups.iter();
    let mut groups: BTreeMap<String, GroupScale> = groups
        .map(|group| (group.name.clone(), empty(group)))
        .collect();
    for alloc in snapshot.allocs_by_job(key) {
        if alloc.terminal() || alloc.job_create_index != job.create_index {
            continue;
        }
        let Some(group) = groups.get_mut(&alloc.task_group) else {
            continue;
        };
        group.placed += 1;
        group.running += u64::from(alloc.client_status == ClientStatus::Running);
        match alloc.deployment_status.as_ref().and_then(|it| it.healthy) {
            Some(true) => group.healthy += 1,
            Some(false) => group.unhealthy += 1,
            None => {}
        }
    }
    groups
}

/// Bounds and the active deployment are looked at in `apply`, which also refuses a job that changed
/// since it was built here.
pub(super) async fn scale(ask: &Ask) -> Answered {
    let request: ScaleRequest = ask.json()?;
    let key = job::key(ask);
    let group = request.target.get("Group").cloned().unwrap_or_default();
    check(&request, &group).map_err(HttpError::bad_request)?;
    if request.count.is_some() {
        check_registration_allowed(ask)?;
    }
    for _ in 0..BUILDS_MAX {
        let snapshot = ask.consistent().await?;
        let job = lookup::job(&snapshot, &key)?;
        let wanted = request.job_modify_index;
        if wanted != 0 && wanted != job.job_modify_index {
            let found = job.job_modify_index;
            return Err(Refusal::JobModified { wanted, found }.into());
        }
        let register = match request.count {
            Some(count) => Some(with_count(ask, &snapshot, job, &group, count)?),
            None => None,
        };
        let event = ScalingEvent {
            count: request.count,
            message: request.message.clone(),
            error: request.error,
            meta: request.meta.clone(),
            ..ScalingEvent::default()
        };
        let command = Command::JobScale(Box::new(ScaleCommand {
            key: key.clone(),
            group: group.clone(),
            event,
            register,
        }));
        match ask.change(command).await {
            Err(ChangeError::Refused(Refusal::JobModified { .. })) if wanted == 0 => {}
            changed => return registered(ask, &changed?, String::new()),
        }
    }
    Err(changes_too_often(&key))
}

/// The checks that need no state. The texts are Nomad's.
fn check(request: &ScaleRequest, group: &str) -> Result<(), &'static str> {
    match request.count {
        _ if group.is_empty() => Err("missing task group name for scaling action"),
        Some(_) if request.error => Err("scaling action should not contain count if error is true"),
        Some(count) if count < 0 => Err("scaling action count can't be negative"),
        Some(count) if u32::try_from(count).is_err() => Err("scaling action count is too large"),
        Some(_) | None => Ok(()),
    }
}

fn with_count(
    ask: &Ask,
    snapshot: &Snapshot,
    job: &Job,
    group: &str,
    count: i64,
) -> Result<JobRegister, HttpError> {
    let mut scaled = job.clone();
    let found = scaled.task_groups.iter_mut().find(|it| it.name == group);
    let Some(found) = found else {
        return Err(Refusal::Scale(ScaleRefusal::UnknownGroup(group.to_owned())).into());
    };
    found.count = u32::try_from(count).ok();
    let eval =
        runs_now(&scaled).then(|| evaluation(&scaled, 0, EvalTrigger::JobScaling, ask.now()));
    let submission = snapshot.job_submission(&job.key(), job.version).cloned();
    Ok(JobRegister {
        spec: scaled.spec_hash(),
        job: Arc::new(scaled),
        eval,
        enforce_index: Some(job.job_modify_index),
        submission,
    })
}
