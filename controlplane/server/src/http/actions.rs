//! `/v1/job/:id/actions` and `/v1/job/:id/action`: the actions of a job's tasks, listed and run.
//!
//! An action is a command of the job file, so the caller names it and cannot change it. It runs as
//! `exec` does, in a task that is running.

use std::sync::Arc;

use controlplane_state::{Snapshot, Table};
use protocol_api::client::RunAction;
use protocol_api::jobs::{JobAction, JobActions};
use protocol_model::{Allocation, ClientStatus, Job, JobKey};
use protocol_wire::v1::{self, node_request::Request};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};
use super::{exec, job, lookup};

pub(super) const ROUTES: Routes = routes![
    JobActions => list,
    RunAction => run,
];

async fn list(ask: &Ask) -> Answered {
    let key = &job::key(ask);
    ask.read(&[Table::Jobs], |snapshot| {
        Ok(actions(lookup::job(snapshot, key)?))
    })
    .await
}

fn actions(job: &Job) -> Vec<JobAction> {
    let groups = job.task_groups.iter();
    let tasks = groups.flat_map(|group| group.tasks.iter().map(move |task| (group, task)));
    let actions = tasks.flat_map(|(group, task)| {
        task.actions.iter().map(move |action| JobAction {
            name: action.name.clone(),
            task_name: task.name.clone(),
            task_group_name: group.name.clone(),
        })
    });
    actions.collect()
}

async fn run(ask: &mut Ask) -> Answered {
    let key = job::key(ask);
    let wanted = Wanted::of(ask)?;
    let snapshot = ask.consistent().await?;
    let alloc = wanted.allocation(&snapshot, &key)?;
    let request = Request::Exec(v1::ExecRequest {
        task: wanted.task.to_owned(),
        command: wanted.command(&snapshot, &key, &alloc)?,
        tty: ask.query.flag("tty")?,
    });
    let id = alloc.id;
    exec::open(ask, id, request).await
}

/// The action that a request names.
struct Wanted {
    task: String,
    action: String,
    alloc: Option<String>,
    group: Option<String>,
}

impl Wanted {
    fn of(ask: &Ask) -> Result<Self, HttpError> {
        let required = |name: &str, what: &str| {
            let text = ask.query.text(name).filter(|text| !text.is_empty());
            let text = text.map(str::to_owned);
            text.ok_or_else(|| HttpError::bad_request(format!("must provide {what}")))
        };
        let optional = |name: &str| ask.query.text(name).map(str::to_owned);
        Ok(Self {
            task: required("task", "a task name")?,
            action: required("action", "an action name")?,
            alloc: optional("allocID"),
            group: optional("group"),
        })
    }

    /// The allocation that was named, or the newest running one of the job that has the task.
    fn allocation(&self, snapshot: &Snapshot, key: &JobKey) -> Result<Arc<Allocation>, HttpError> {
        let job = lookup::job(snapshot, key)?;
        if let Some(text) = &self.alloc {
            let alloc = lookup::alloc(snapshot, lookup::id("an allocation", text)?)?;
            if alloc.job_key() != *key {
                let text = format!("allocation {} is not of job {:?}", alloc.id, key.id);
                return Err(HttpError::bad_request(text));
            }
            return Ok(Arc::clone(alloc));
        }
        let has_task = |alloc: &&Arc<Allocation>| {
            let group = job.task_group(&alloc.task_group);
            let named = self.group.as_ref();
            named.is_none_or(|named| *named == alloc.task_group)
                && group.is_some_and(|group| group.tasks.iter().any(|it| it.name == self.task))
        };
        snapshot
            .allocs_by_job(key)
            .filter(|alloc| alloc.client_status == ClientStatus::Running)
            .filter(has_task)
            .max_by_key(|alloc| alloc.create_index)
            .map(Arc::clone)
            .ok_or_else(|| {
                HttpError::not_found(format!(
                    "no allocation of job {:?} that has task {:?} is running",
                    key.id, self.task
                ))
            })
    }

    /// The action's command, as the version that the allocation runs says it.
    fn command(
        &self,
        snapshot: &Snapshot,
        key: &JobKey,
        alloc: &Allocation,
    ) -> Result<Vec<String>, HttpError> {
        let job = snapshot.spec(alloc.spec);
        let job = job.ok_or_else(|| HttpError::not_found("job not found"))?;
        let group = job.task_group(&alloc.task_group);
        let task = group.and_then(|group| group.tasks.iter().find(|it| it.name == self.task));
        let action = task.and_then(|task| task.actions.iter().find(|it| it.name == self.action));
        let action = action.ok_or_else(|| {
            HttpError::not_found(format!(
                "task {:?} of job {:?} has no action {:?}; `drover job action` without a name \
                 lists the actions",
                self.task, key.id, self.action
            ))
        })?;
        let mut command = vec![action.command.clone()];
        command.extend(action.args.iter().cloned());
        Ok(command)
    }
}
