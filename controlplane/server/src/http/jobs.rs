//! `/v1/jobs` and `/v1/validate/job`: the list, registration, parsing, validation.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::{GroupSummary, Snapshot, Table};
use protocol_api::jobs::{
    ChildCounts, GroupCounts, JobCounts, JobListStub, JobStatuses, JobStatusesOf, ListJobs,
    ParseJob, ParseRequest, RegisterJob, ValidateJob,
};
use protocol_jobspec::{NoFiles, VariableFile, Variables};
use protocol_model::{Job, JobKey};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::filter::Filter;
use super::page::{ByName, page_where};
use super::route::{Routes, routes};
use super::{job_register, job_statuses};

/// Job files that are parsed at a time; further requests wait.
const PARSING_MAX: usize = 4;
static PARSING: Semaphore = Semaphore::const_new(PARSING_MAX);

pub(super) const ROUTES: Routes = routes![
    ListJobs => list,
    JobStatuses => job_statuses::all,
    JobStatusesOf => job_statuses::named,
    RegisterJob => job_register::register,
    ParseJob => parse,
    ValidateJob => job_register::validate,
];

/// A job's counters.
pub(super) fn summary(snapshot: &Snapshot, job: &Job) -> JobCounts {
    let key = job.key();
    let groups = snapshot.job_summary(&key).groups;
    JobCounts {
        summary: groups
            .into_iter()
            .map(|(name, group)| (name, group_counts(group)))
            .collect(),
        children: children(snapshot, &key),
        job_id: key.id,
        namespace: key.namespace,
        create_index: job.create_index,
        modify_index: job.modify_index,
    }
}

fn group_counts(group: GroupSummary) -> GroupCounts {
    let GroupSummary { queued, counts } = group;
    GroupCounts {
        queued,
        complete: counts.complete,
        failed: counts.failed,
        running: counts.running,
        starting: counts.starting,
        lost: counts.lost,
        unknown: counts.unknown,
    }
}

fn children(snapshot: &Snapshot, key: &JobKey) -> ChildCounts {
    let children = snapshot.children(key);
    children.map_or_else(ChildCounts::default, |children| ChildCounts {
        pending: children.pending,
        running: children.running,
        dead: children.dead,
    })
}

async fn list(ask: &Ask) -> Answered {
    let tables = [Table::Jobs, Table::JobSummaries];
    let snapshot = ask.snapshot(&tables).await?;
    list_in(ask, &snapshot, &tables, None)
}

/// The list of jobs in `snapshot`, which `tables` were waited for in: those of one pool where it is
/// named.
pub(super) fn list_in(
    ask: &Ask,
    snapshot: &Snapshot,
    tables: &[Table],
    pool: Option<&str>,
) -> Answered {
    let filter = Filter::of(&ask.query)?;
    let prefix = ask.query.get("prefix").unwrap_or("");
    let with_meta = ask.query.flag("meta")?;
    let named = |(key, job)| (ByName(JobKey::clone(key).namespace, key.id.clone()), job);
    let keep = |job: &&Arc<Job>| match &filter {
        _ if pool.is_some_and(|pool| pool != job.node_pool) => Ok(false),
        None => Ok(true),
        // All that a list can show can be asked for.
        Some(filter) => filter.keeps(&stub(snapshot, job, Some(&job.meta))),
    };
    let namespaces = ask.namespaces();
    let page = match namespaces.one() {
        None => page_where(
            &ask.query,
            snapshot
                .jobs()
                .filter(|(key, _)| {
                    key.id.starts_with(prefix) && namespaces.contains(&key.namespace)
                })
                .map(named),
            keep,
        )?,
        Some(name) => page_where(
            &ask.query,
            snapshot.jobs_with_prefix(name, prefix).map(named),
            keep,
        )?,
    };
    let stubs: Vec<JobListStub> = page
        .items
        .into_iter()
        .map(|job| {
            let meta = with_meta.then_some(&job.meta).filter(|it| !it.is_empty());
            stub(snapshot, job, meta)
        })
        .collect();
    ask.answer_page(
        &stubs,
        snapshot.table_index(tables),
        page.next_token.as_deref(),
    )
}

fn stub(snapshot: &Snapshot, job: &Job, meta: Option<&BTreeMap<String, String>>) -> JobListStub {
    JobListStub {
        id: job.id.clone(),
        parent_id: job.parent_id.clone(),
        name: job.name.clone(),
        namespace: job.namespace.clone(),
        datacenters: job.datacenters.clone(),
        node_pool: job.node_pool.clone(),
        multiregion: job.multiregion.clone(),
        job_type: job.job_type,
        priority: job.priority,
        periodic: job.is_periodic(),
        parameterized_job: job.is_parameterized(),
        stop: job.stop,
        status: job.status,
        status_description: job.status_description.clone(),
        job_summary: summary(snapshot, job),
        meta: meta.cloned(),
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
        .map_err(|_| HttpError::internal("the server is shutting down"))?;
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
