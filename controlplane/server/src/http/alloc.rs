//! `/v1/allocations` and `/v1/allocation/:id`: lists, one allocation whole, and stopping it.

use std::sync::Arc;

use controlplane_state::{Command, Snapshot, Table};
use protocol_api::allocations::{ListAllocations, ReadAllocation, StopAllocation, Stopped};
use protocol_model::{
    AllocId, Allocation, AllocationListStub, DesiredTransition, EvalTrigger, ListResources,
};

use super::ask::Ask;
use super::detail::{self, Detail};
use super::error::{Answered, HttpError};
use super::filter::Filter;
use super::job_register::evaluation;
use super::lookup;
use super::page::{ByIndex, Page, page_where};
use super::route::{Routes, routes};
use super::shown::AllocShown;

pub(super) const ROUTES: Routes = routes![
    ListAllocations => list,
    ReadAllocation => read,
    StopAllocation => stop,
];

/// The allocation that the path names.
///
/// # Errors
/// Where it is no whole id.
pub(super) fn id(ask: &Ask) -> Result<AllocId, HttpError> {
    lookup::id("an allocation", ask.parameter("id"))
}

/// What a list shows of each allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListParts {
    resources: ListResources,
    task_states: bool,
}

impl ListParts {
    /// What a request asks for: `?resources=true`, `?task_states=false`.
    ///
    /// # Errors
    /// Where a flag is neither true nor false.
    pub(super) fn of(ask: &Ask) -> Result<Self, HttpError> {
        let resources = if ask.query.flag("resources")? {
            ListResources::Include
        } else {
            ListResources::Omit
        };
        let task_states =
            ask.query.get("task_states").is_none() || ask.query.flag("task_states")?;
        Ok(Self {
            resources,
            task_states,
        })
    }

    fn stub(self, snapshot: &Snapshot, alloc: &Allocation) -> AllocationListStub {
        let job = snapshot.job_of_alloc(alloc);
        let mut stub = alloc.stub(job.as_deref(), self.resources);
        if !self.task_states {
            stub.task_states.clear();
        }
        stub
    }
}

/// Answers a list of short forms, with the newest events that any server knows.
pub(super) async fn answer_list(
    ask: &Ask,
    snapshot: &Snapshot,
    page: Page<Arc<Allocation>>,
    parts: ListParts,
    index: u64,
) -> Answered {
    let Page {
        items: mut allocs,
        next_token,
    } = page;
    let detail = if parts.task_states {
        detail::merge_all(&ask.api, &mut allocs).await
    } else {
        Detail::Whole
    };
    let stubs: Vec<AllocationListStub> = allocs
        .iter()
        .map(|alloc| parts.stub(snapshot, alloc))
        .collect();
    let mut response = ask.answer_page(&stubs, index, next_token.as_deref())?;
    detail.tell(&mut response);
    Ok(response)
}

/// When any allocation last changed.
pub(super) fn any_moved(snapshot: &Snapshot) -> u64 {
    snapshot.table_index(&[Table::Allocs])
}

/// The index to answer with where `moved` is what a query waits for: the newest that tells no more
/// than the snapshot, and never below `moved`, or whoever asks again with it would never wait.
fn index_of(snapshot: &Snapshot, moved: impl Fn(&Snapshot) -> u64) -> u64 {
    any_moved(snapshot).max(moved(snapshot))
}

/// Answers the allocations that `look` finds, all of them; `moved` tells when they last changed.
pub(super) async fn answer_found(
    ask: &Ask,
    moved: impl Fn(&Snapshot) -> u64 + Send + Sync,
    look: impl FnOnce(&Snapshot) -> Vec<Arc<Allocation>>,
) -> Answered {
    let parts = ListParts::of(ask)?;
    let snapshot = ask.snapshot_after(&moved).await?;
    let page = Page {
        items: look(&snapshot),
        next_token: None,
    };
    let index = index_of(&snapshot, &moved);
    answer_list(ask, &snapshot, page, parts, index).await
}

/// `/v1/allocations`.
async fn list(ask: &Ask) -> Answered {
    let parts = ListParts::of(ask)?;
    let prefix = lookup::prefix(&ask.query)?;
    let namespaces = ask.namespaces();
    let filter = Filter::of(&ask.query)?;
    let snapshot = ask.snapshot(&[Table::Allocs]).await?;
    let key =
        |alloc: &Arc<Allocation>| (ByIndex(alloc.create_index, alloc.id.0), Arc::clone(alloc));
    let shown = |alloc: &&Arc<Allocation>| namespaces.contains(&alloc.namespace);
    // All that a list can show can be asked for.
    let whole = ListParts {
        resources: ListResources::Include,
        task_states: true,
    };
    let keep = |alloc: &Arc<Allocation>| match &filter {
        None => Ok(true),
        Some(filter) => filter.keeps(&whole.stub(&snapshot, alloc)),
    };
    let page = match prefix {
        None => page_where(&ask.query, snapshot.allocs().filter(shown).map(key), keep)?,
        Some(prefix) => page_where(
            &ask.query,
            snapshot.allocs_with_prefix(prefix).filter(shown).map(key),
            keep,
        )?,
    };
    answer_list(ask, &snapshot, page, parts, any_moved(&snapshot)).await
}

/// One allocation with its job and the newest events that any server knows.
async fn read(ask: &Ask) -> Answered {
    let id = id(ask)?;
    let moved = |snapshot: &Snapshot| snapshot.alloc_index(id);
    let snapshot = ask.snapshot_after(&moved).await?;
    let found = snapshot
        .alloc(id)
        .ok_or_else(|| HttpError::not_found("alloc not found"))?;
    let mut alloc = Allocation::clone(found);
    alloc.job = snapshot.job_of_alloc(found);
    let detail = detail::merge(&ask.api, &mut alloc).await;
    let shown = AllocShown::new(Arc::new(alloc));
    let mut response = ask.answer(&shown, index_of(&snapshot, moved))?;
    detail.tell(&mut response);
    Ok(response)
}

/// Asks the scheduler to stop an allocation and to place another one for it.
async fn stop(ask: &Ask) -> Answered {
    let id = id(ask)?;
    let no_shutdown_delay = ask.query.flag("no_shutdown_delay")?;
    let snapshot = ask.consistent().await?;
    let alloc = lookup::alloc(&snapshot, id)?;
    let job = snapshot
        .job_of_alloc(alloc)
        .ok_or_else(|| HttpError::not_found("job of the allocation not found"))?;
    let eval = evaluation(&job, 0, EvalTrigger::AllocStop, ask.now());
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
    let changed = ask.change(command).await?;
    ask.answer(
        &Stopped {
            eval_id,
            index: changed.index,
        },
        changed.index,
    )
}
