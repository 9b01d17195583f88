//! Which allocation and which task a command is about.

use protocol_api::allocations::ReadAllocation;
use protocol_api::jobs::JobAllocations;
use protocol_client::{Client, Query};
use protocol_model::{Allocation, ClientStatus};

use crate::failure::Failure;
use crate::find::{self, Kind};

/// The allocation that `text` names: the beginning of an id, or with `-job` a job, whose newest
/// running allocation is meant (or its newest, where none runs).
pub(crate) async fn allocation(
    client: &Client,
    text: &str,
    by_job: bool,
    group: Option<&str>,
) -> Result<Allocation, Failure> {
    let id = if by_job {
        newest_of_job(client, text, group).await?
    } else {
        find::id(client, Kind::Allocation, text).await?
    };
    let read = ReadAllocation { id: &id };
    Ok(client.call(&read, &Query::new()).await?.value)
}

async fn newest_of_job(client: &Client, job: &str, group: Option<&str>) -> Result<String, Failure> {
    let name = find::job(client, job).await?;
    let list = JobAllocations { id: &name.id };
    let allocs = client.call(&list, &name.query()).await?.value;
    allocs
        .into_iter()
        .filter(|alloc| group.is_none_or(|group| alloc.task_group == group))
        .max_by_key(|alloc| {
            (
                alloc.client_status == ClientStatus::Running,
                alloc.create_index,
            )
        })
        .map(|alloc| alloc.id.to_string())
        .ok_or_else(|| Failure::usage(format!("job {:?} has no such allocation", name.id)))
}

/// The task that was named, or the only one of the allocation.
///
/// # Errors
/// If there is no such task, or several and none was named.
pub(crate) fn task(alloc: &Allocation, named: Option<&str>) -> Result<String, Failure> {
    let names = tasks(alloc);
    let list = || names.join(", ");
    match (named, names.as_slice()) {
        (Some(name), names) if names.iter().any(|known| known == name) => Ok(name.to_owned()),
        // The job may be gone: the node knows its tasks anyway.
        (Some(name), []) => Ok(name.to_owned()),
        (Some(name), _) => Err(Failure::usage_hint(
            format!("the allocation has no task {name:?}"),
            format!("its tasks: {}", list()),
        )),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Failure::usage_hint(
            "the allocation has several tasks; one has to be named",
            format!("its tasks: {}", list()),
        )),
    }
}

/// The names of the allocation's tasks.
pub(crate) fn tasks(alloc: &Allocation) -> Vec<String> {
    let group = alloc
        .job
        .as_ref()
        .and_then(|job| job.task_group(&alloc.task_group));
    match group {
        Some(group) => group.tasks.iter().map(|task| task.name.clone()).collect(),
        None => alloc.task_states.keys().cloned().collect(),
    }
}
