//! `/v1/jobs` and `/v1/validate/job`: the list, registration, parsing, validation.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::{GroupSummary, Snapshot, Table};
use protocol_api::jobs::{ListJobs, ParseJob, ParseRequest, RegisterJob, ValidateJob};
use protocol_jobspec::{NoFiles, VariableFile, Variables};
use protocol_model::{Job, JobKey, JobStatus, JobType, Multiregion, UnixNanos, nullable};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::filter::Filter;
use super::job_register;
use super::page::{ByName, page_where};
use super::query::Namespaces;
use super::route::{Routes, routes};

/// Job files that are parsed at a time; further requests wait.
const PARSING_MAX: usize = 4;
static PARSING: Semaphore = Semaphore::const_new(PARSING_MAX);

pub(super) const ROUTES: Routes = routes![
    ListJobs => list,
    RegisterJob => job_register::register,
    ParseJob => parse,
    ValidateJob => job_register::validate,
];

/// A job in lists.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct JobStub<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    #[serde(rename = "ParentID")]
    parent_id: &'a str,
    name: &'a str,
    namespace: &'a str,
    #[serde(with = "nullable")]
    datacenters: Vec<String>,
    node_pool: &'a str,
    multiregion: Option<&'a Multiregion>,
    #[serde(rename = "Type")]
    job_type: JobType,
    priority: i32,
    periodic: bool,
    parameterized_job: bool,
    stop: bool,
    status: JobStatus,
    status_description: &'a str,
    job_summary: JobSummaryView,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a BTreeMap<String, String>>,
    version: u64,
    create_index: u64,
    modify_index: u64,
    job_modify_index: u64,
    submit_time: UnixNanos,
}

/// A job's counters, in the shape of `/v1/job/:id/summary`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct JobSummaryView {
    #[serde(rename = "JobID")]
    job_id: String,
    namespace: String,
    summary: BTreeMap<String, GroupSummaryView>,
    children: ChildrenView,
    create_index: u64,
    modify_index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GroupSummaryView {
    queued: i64,
    complete: u64,
    failed: u64,
    running: u64,
    starting: u64,
    lost: u64,
    unknown: u64,
}

/// How many jobs were launched from this one, by status.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ChildrenView {
    pending: u64,
    running: u64,
    dead: u64,
}

/// A job's counters.
pub(super) fn summary(snapshot: &Snapshot, job: &Job) -> JobSummaryView {
    let key = job.key();
    let groups = snapshot.job_summary(&key).groups;
    JobSummaryView {
        summary: groups
            .into_iter()
            .map(|(name, group)| (name, group_view(group)))
            .collect(),
        children: children(snapshot, job, &key),
        job_id: key.id,
        namespace: key.namespace,
        create_index: job.create_index,
        modify_index: job.modify_index,
    }
}

fn group_view(group: GroupSummary) -> GroupSummaryView {
    let GroupSummary { queued, counts } = group;
    GroupSummaryView {
        queued,
        complete: counts.complete,
        failed: counts.failed,
        running: counts.running,
        starting: counts.starting,
        lost: counts.lost,
        unknown: counts.unknown,
    }
}

/// Only templates have children; their ids begin with the template's.
fn children(snapshot: &Snapshot, job: &Job, key: &JobKey) -> ChildrenView {
    let mut view = ChildrenView {
        pending: 0,
        running: 0,
        dead: 0,
    };
    if job.is_periodic() || job.is_parameterized() {
        for (_, child) in snapshot.jobs_with_prefix(&key.namespace, &format!("{}/", key.id)) {
            match child.status {
                JobStatus::Pending => view.pending += 1,
                JobStatus::Running => view.running += 1,
                JobStatus::Dead => view.dead += 1,
            }
        }
    }
    view
}

async fn list(ask: &Ask) -> Answered {
    let tables = [Table::Jobs, Table::JobSummaries];
    let filter = Filter::of(&ask.query)?;
    let snapshot = ask.snapshot(&tables).await?;
    let prefix = ask.query.get("prefix").unwrap_or("");
    let with_meta = ask.query.flag("meta")?;
    let named = |(key, job)| (ByName(JobKey::clone(key).namespace, key.id.clone()), job);
    let keep = |job: &&Arc<Job>| match &filter {
        None => Ok(true),
        // All that a list can show can be asked for.
        Some(filter) => filter.keeps(&stub(&snapshot, job, Some(&job.meta))),
    };
    let page = match ask.query.namespaces() {
        Namespaces::All => page_where(
            &ask.query,
            snapshot
                .jobs()
                .filter(|(key, _)| key.id.starts_with(prefix))
                .map(named),
            keep,
        )?,
        Namespaces::One(name) => page_where(
            &ask.query,
            snapshot.jobs_with_prefix(name, prefix).map(named),
            keep,
        )?,
    };
    let stubs: Vec<JobStub<'_>> = page
        .items
        .into_iter()
        .map(|job| {
            let meta = with_meta.then_some(&job.meta).filter(|it| !it.is_empty());
            stub(&snapshot, job, meta)
        })
        .collect();
    ask.answer_page(
        &stubs,
        snapshot.table_index(&tables),
        page.next_token.as_deref(),
    )
}

fn stub<'a>(
    snapshot: &Snapshot,
    job: &'a Job,
    meta: Option<&'a BTreeMap<String, String>>,
) -> JobStub<'a> {
    JobStub {
        id: &job.id,
        parent_id: &job.parent_id,
        name: &job.name,
        namespace: &job.namespace,
        datacenters: job.datacenters.clone(),
        node_pool: &job.node_pool,
        multiregion: job.multiregion.as_ref(),
        job_type: job.job_type,
        priority: job.priority,
        periodic: job.is_periodic(),
        parameterized_job: job.is_parameterized(),
        stop: job.stop,
        status: job.status,
        status_description: &job.status_description,
        job_summary: summary(snapshot, job),
        meta,
        version: job.version,
        create_index: job.create_index,
        modify_index: job.modify_index,
        job_modify_index: job.job_modify_index,
        submit_time: job.submit_time,
    }
}

/// Job file in, job out. The server's own files and environment are not the caller's to read.
async fn parse(ask: &Ask) -> Answered {
    let request: ParseRequest = ask.json()?;
    if request.job_hcl.is_empty() {
        return Err(HttpError::bad_request("Job spec is empty"));
    }
    if request.hcl_v1 {
        // As HCL2 the same text may mean another job.
        let refused = "HCL1 is not read by this release: leave HCLv1 out, and the file is HCL2";
        return Err(HttpError::bad_request(refused));
    }
    let mut variables = Variables::default();
    if !request.variables.is_empty() {
        let name = "variables".to_owned();
        variables.files.push(VariableFile {
            name,
            text: request.variables,
        });
    }
    let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
    let mut inputs = NoFiles {
        variables,
        now: jiff::Timestamp::now(),
        seed,
    };
    // A large file takes seconds: not on the threads that serve everything else, and not so many
    // at a time that no core is left.
    let place = PARSING
        .acquire()
        .await
        .map_err(|_| HttpError::internal("nothing is parsed any more"))?;
    let text = request.job_hcl;
    let parsing = tokio::task::spawn_blocking(move || {
        let _held: SemaphorePermit<'static> = place;
        protocol_jobspec::parse("job.hcl", &text, &mut inputs)
            .map_err(|problems| problems.to_string())
    });
    let parsed = parsing
        .await
        .map_err(|error| HttpError::internal(error.to_string()))?
        .map_err(HttpError::bad_request)?;
    if !request.canonicalize {
        return ask.answer(&parsed.written(), 0);
    }
    let mut job = parsed.job;
    job.canonicalize();
    ask.answer(&job, 0)
}
