//! `/v1/jobs/statuses`: jobs with their allocations' statuses, the newest change first.

use std::cmp::Reverse;
use std::sync::Arc;

use controlplane_state::{Children, Snapshot, Table};
use protocol_api::jobs::{
    JobStatusesAlloc, JobStatusesDeployment, JobStatusesHealth, JobStatusesJob, StatusesRequest,
};
use protocol_model::{
    Allocation, DEFAULT_NAMESPACE, Deployment, DeploymentState, Job, JobKey, JobStatus,
};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::filter::Filter;
use super::page::{NewestFirst, page_where};

const TABLES: [Table; 4] = [
    Table::Jobs,
    Table::JobSummaries,
    Table::Allocs,
    Table::Deployments,
];

/// All jobs of the namespaces that are asked for.
pub(super) async fn all(ask: &Ask) -> Answered {
    let with_children = ask.query.flag("include_children")?;
    let snapshot = ask.snapshot(&TABLES).await?;
    let prefix = ask.query.get("prefix").unwrap_or("");
    let namespaces = ask.namespaces();
    let jobs = snapshot
        .jobs()
        .filter(|(key, _)| namespaces.contains(&key.namespace) && key.id.starts_with(prefix));
    let jobs = jobs
        .map(|(_, job)| job)
        .filter(|job| is_asked_for(job, with_children));
    answer(ask, &snapshot, jobs)
}

/// The jobs that the body names.
pub(super) async fn named(ask: &Ask) -> Answered {
    let request: StatusesRequest = ask.json()?;
    if request.jobs.is_empty() {
        return Err(HttpError::bad_request("no jobs in request"));
    }
    let snapshot = ask.snapshot(&TABLES).await?;
    // The names of namespaces stand in the body: those that the caller may not read show nothing.
    ask.settle("*")?;
    let keys = request.jobs.into_iter().map(|name| {
        let namespace = match name.namespace.as_str() {
            "" => DEFAULT_NAMESPACE,
            given => given,
        };
        JobKey::new(namespace, name.id)
    });
    let keys = keys.filter(|key| ask.shows(&key.namespace));
    let keys: std::collections::BTreeSet<JobKey> = keys.collect();
    let jobs = keys.iter().filter_map(|key| snapshot.job(key));
    let jobs = jobs.filter(|job| is_asked_for(job, request.include_children));
    answer(ask, &snapshot, jobs)
}

fn is_asked_for(job: &Job, with_children: bool) -> bool {
    with_children || job.parent_id.is_empty()
}

fn answer<'s>(
    ask: &Ask,
    snapshot: &'s Snapshot,
    jobs: impl Iterator<Item = &'s Arc<Job>>,
) -> Answered {
    let filter = Filter::of(&ask.query)?;
    let keyed = jobs.map(|job| {
        let index = modify_index(snapshot, job);
        let key = NewestFirst(Reverse(index), job.namespace.clone(), job.id.clone());
        (key, (job, index))
    });
    let keep = |(job, _): &(&Arc<Job>, u64)| match &filter {
        None => Ok(true),
        Some(filter) => filter.keeps(&***job),
    };
    let page = page_where(&ask.query, keyed, keep)?;
    let shown: Vec<JobStatusesJob> = page
        .items
        .into_iter()
        .map(|(job, index)| shown(snapshot, job, index))
        .collect();
    ask.answer_page(
        &shown,
        snapshot.table_index(&TABLES),
        page.next_token.as_deref(),
    )
}

/// When something of the job changed last that is shown here.
fn modify_index(snapshot: &Snapshot, job: &Job) -> u64 {
    let key = job.key();
    // Without allocations, the index is that of all jobs' allocations.
    let has_allocs = snapshot.allocs_by_job(&key).next().is_some();
    let moved = has_allocs.then(|| snapshot.job_allocs_index(&key));
    let moved = moved.unwrap_or(0);
    let deployment = snapshot.latest_deployment(&key);
    let deployment = deployment.map_or(0, |deployment| deployment.modify_index);
    job.modify_index.max(moved).max(deployment)
}

fn shown(snapshot: &Snapshot, job: &Job, modify_index: u64) -> JobStatusesJob {
    let key = job.key();
    let own = |alloc: &&Arc<Allocation>| alloc.job_create_index == job.create_index;
    let counts = job.task_groups.iter().filter_map(|group| group.count);
    let is_template = job.is_periodic() || job.is_parameterized();
    let deployment = snapshot.latest_deployment(&key);
    let deployment = deployment.filter(|it| it.job_create_index == job.create_index);
    JobStatusesJob {
        id: job.id.clone(),
        namespace: job.namespace.clone(),
        name: job.name.clone(),
        job_type: job.job_type,
        node_pool: job.node_pool.clone(),
        datacenters: job.datacenters.clone(),
        priority: job.priority,
        version: job.version,
        submit_time: job.submit_time,
        modify_index,
        allocs: snapshot
            .allocs_by_job(&key)
            .filter(own)
            .map(|alloc| shown_alloc(alloc))
            .collect(),
        group_count_sum: counts.map(u64::from).sum(),
        child_statuses: is_template.then(|| child_statuses(snapshot.children(&key))),
        parent_id: job.parent_id.clone(),
        latest_deployment: deployment.map(|deployment| shown_deployment(deployment)),
        stop: job.stop,
        is_pack: job.meta.contains_key("pack.name"),
        status: job.status,
    }
}

fn shown_alloc(alloc: &Allocation) -> JobStatusesAlloc {
    let health = alloc.deployment_status.as_ref();
    JobStatusesAlloc {
        id: alloc.id,
        group: alloc.task_group.clone(),
        client_status: alloc.client_status,
        node_id: alloc.node_id,
        deployment_status: health.map_or_else(JobStatusesHealth::default, |status| {
            JobStatusesHealth {
                canary: status.canary,
                healthy: status.healthy,
            }
        }),
        job_version: alloc.job_version,
        followup_eval_id: alloc.followup_eval_id,
        // Schedules that pause tasks are not part of this release.
        has_paused_task: false,
    }
}

fn child_statuses(children: Option<&Children>) -> Vec<JobStatus> {
    let Some(children) = children else {
        return Vec::new();
    };
    let of = |status, count| std::iter::repeat_n(status, usize::try_from(count).unwrap_or(0));
    of(JobStatus::Pending, children.pending)
        .chain(of(JobStatus::Running, children.running))
        .chain(of(JobStatus::Dead, children.dead))
        .collect()
}

fn shown_deployment(deployment: &Deployment) -> JobStatusesDeployment {
    let canaries = |group: &&DeploymentState| group.desired_canaries > 0;
    let groups = || deployment.task_groups.values().filter(canaries);
    let is_active = deployment.status.is_active();
    JobStatusesDeployment {
        id: deployment.id,
        is_active,
        job_version: deployment.job_version,
        status: deployment.status,
        status_description: deployment.status_description.clone(),
        all_auto_promote: groups().next().is_some() && groups().all(|group| group.auto_promote),
        requires_promotion: is_active && groups().any(|group| !group.promoted),
    }
}
