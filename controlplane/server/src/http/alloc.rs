//! `/v1/allocations` and `/v1/allocation/:id`: lists, one allocation whole, and stopping it.

use std::sync::Arc;

use axum::http::HeaderValue;
use controlplane_state::{Command, Snapshot, Table};
use protocol_model::{
    AllocId, Allocation, AllocationListStub, DesiredTransition, EvalTrigger, ListResources,
};
use serde::Serialize;

use super::ask::{Ask, Verb};
use super::detail;
use super::error::{Answered, HttpError};
use super::job_register::evaluation;
use super::lookup;
use super::page::{ByIndex, page};

pub(super) async fn route(ask: &Ask, id: &str, rest: &[&str]) -> Answered {
    let id: AllocId = lookup::id("an allocation", id)?;
    match (ask.verb, rest) {
        (Verb::Get, []) => read(ask, id).await,
        (Verb::Put, ["stop"]) => stop(ask, id).await,
        (_, [] | ["stop"]) => Err(HttpError::method()),
        _ => Err(HttpError::no_route()),
    }
}

/// Whether a list shows what each allocation was given.
///
/// # Errors
/// Where the flag is neither true nor false.
pub(super) fn list_resources(ask: &Ask) -> Result<ListResources, HttpError> {
    Ok(if ask.query.flag("resources")? {
        ListResources::Include
    } else {
        ListResources::Omit
    })
}

/// The short forms, with the events that this server knows.
pub(super) fn stubs(
    ask: &Ask,
    snapshot: &Snapshot,
    allocs: &[Arc<Allocation>],
    resources: ListResources,
) -> Vec<AllocationListStub> {
    let stub = |alloc: &Arc<Allocation>| {
        let job = snapshot.job_of_alloc(alloc);
        let job_type = job.as_ref().map_or("", |job| job.job_type.as_str());
        match ask.api.gateway.detail().of(alloc.id) {
            None => alloc.stub(job_type, resources),
            Some(detail) => {
                let mut alloc = Allocation::clone(alloc);
                detail.merge_into(&mut alloc);
                alloc.stub(job_type, resources)
            }
        }
    };
    allocs.iter().map(stub).collect()
}

/// `/v1/allocations`.
pub(super) async fn list(ask: &Ask) -> Answered {
    if ask.verb != Verb::Get {
        return Err(HttpError::method());
    }
    let resources = list_resources(ask)?;
    let prefix = lookup::prefix(&ask.query)?;
    let namespaces = ask.query.namespaces();
    let snapshot = ask.snapshot(&[Table::Allocs]).await?;
    let key =
        |alloc: &Arc<Allocation>| (ByIndex(alloc.create_index, alloc.id.0), Arc::clone(alloc));
    let shown = |alloc: &&Arc<Allocation>| namespaces.contains(&alloc.namespace);
    let page = match prefix {
        None => page(&ask.query, snapshot.allocs().filter(shown).map(key))?,
        Some(prefix) => page(
            &ask.query,
            snapshot.allocs_with_prefix(prefix).filter(shown).map(key),
        )?,
    };
    let stubs = stubs(ask, &snapshot, &page.items, resources);
    ask.answer_page(
        &stubs,
        snapshot.table_index(&[Table::Allocs]),
        page.next_token.as_deref(),
    )
}

/// One allocation with its job and the newest events that any server knows.
async fn read(ask: &Ask, id: AllocId) -> Answered {
    let snapshot = ask.snapshot(&[Table::Allocs]).await?;
    let found = snapshot
        .alloc(id)
        .ok_or_else(|| HttpError::not_found("alloc not found"))?;
    let mut alloc = Allocation::clone(found);
    alloc.job = snapshot.job_of_alloc(found);
    let detail = detail::merge(&ask.api, &mut alloc).await;
    let mut response = ask.answer(&alloc, snapshot.table_index(&[Table::Allocs]))?;
    if detail == detail::Detail::Missing {
        response
            .headers_mut()
            .insert("x-drover-detail", HeaderValue::from_static("missing"));
    }
    Ok(response)
}

/// What stopping an allocation answers.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Stopped {
    #[serde(rename = "EvalID")]
    eval_id: String,
    index: u64,
}

/// Asks the scheduler to stop an allocation and to place another one for it.
async fn stop(ask: &Ask, id: AllocId) -> Answered {
    let no_shutdown_delay = ask.query.flag("no_shutdown_delay")?;
    let snapshot = ask.api.cluster.consistent().await?;
    let alloc = lookup::alloc(&snapshot, id)?;
    let job = snapshot
        .job_of_alloc(alloc)
        .ok_or_else(|| HttpError::not_found("job of the allocation not found"))?;
    let eval = evaluation(&job, 0, EvalTrigger::AllocStop);
    let eval_id = eval.id.to_string();
    let wish = DesiredTransition {
        migrate: Some(true),
        no_shutdown_delay: no_shutdown_delay.then_some(true),
        ..DesiredTransition::default()
    };
    let command = Command::AllocsStop {
        allocs: vec![(id, wish)],
        evals: vec![eval],
    };
    let changed = ask.api.cluster.change(command).await?;
    ask.answer(
        &Stopped {
            eval_id,
            index: changed.index,
        },
        changed.index,
    )
}
