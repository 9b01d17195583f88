//! Task events of allocations, from whichever server their nodes are in a session with.
//!
//! ```text
//!   known here ---------------------------------------------> merged
//!   terminal, or not taken up by its node: nothing is missing -> as it is
//!   else: all other servers are asked at once --known-------> merged
//!                                             \-in time not-> as it is, and the answer says so
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::response::Response;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use protocol_model::{AllocId, Allocation, TaskEvent};
use protocol_transport::StreamKind;
use protocol_wire::v1;
use tokio::time::timeout;

use super::Api;

/// How long other servers are asked: a reader rather sees an answer without events than waits.
const ASK_MAX: Duration = Duration::from_millis(250);
/// Allocations that one question names: with ten tasks each, its answer still fits into a frame.
const QUESTION_ALLOCS_MAX: usize = 1024;
/// Allocations of one list that other servers are asked about, the newest ones. Whoever wants the
/// events of more reads the list in pages.
const LIST_ALLOCS_MAX: usize = 8 * QUESTION_ALLOCS_MAX;

/// Whether everything that could be shown is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Detail {
    /// It is.
    Whole,
    /// Events are missing: no server that knows them answered in time.
    Missing,
}

impl Detail {
    /// Says in an answer's head whether events are missing.
    pub(super) fn tell(self, response: &mut Response) {
        if self == Self::Missing {
            let value = HeaderValue::from_static("missing");
            response.headers_mut().insert("x-drover-detail", value);
        }
    }
}

/// Puts the newest events into an allocation that is about to be shown.
pub(super) async fn merge(api: &Api, alloc: &mut Allocation) -> Detail {
    let mut one = [Arc::new(alloc.clone())];
    let detail = merge_all(api, &mut one).await;
    let [merged] = one;
    *alloc = Arc::unwrap_or_clone(merged);
    detail
}

/// Puts the newest events into allocations that are about to be shown.
pub(super) async fn merge_all(api: &Api, allocs: &mut [Arc<Allocation>]) -> Detail {
    // Where the allocations stand whose events are elsewhere, if anywhere.
    let mut wanted: BTreeMap<AllocId, usize> = BTreeMap::new();
    for (place, alloc) in allocs.iter_mut().enumerate() {
        if let Some(detail) = api.gateway.detail().of(alloc.id) {
            detail.merge_into(Arc::make_mut(alloc));
        } else if !alloc.client_terminal() && !alloc.task_states.is_empty() {
            // A terminal allocation's last word is in the state; one that no node has taken up has
            // no events.
            wanted.insert(alloc.id, place);
        }
    }
    if wanted.is_empty() {
        return Detail::Whole;
    }
    let mut newest: Vec<AllocId> = wanted.keys().copied().collect();
    newest.sort_by_key(|id| std::cmp::Reverse(allocs[wanted[id]].create_index));
    newest.truncate(LIST_ALLOCS_MAX);
    let asking = elsewhere(api, &newest, |detail| {
        let id = AllocId::from_slice(&detail.alloc_id);
        let Some(place) = id.and_then(|id| wanted.remove(&id)) else {
            return wanted.is_empty();
        };
        let alloc = Arc::make_mut(&mut allocs[place]);
        for task in detail.tasks {
            if let Some(state) = alloc.task_states.get_mut(&task.name) {
                let events = task.events.into_iter().map(TaskEvent::from);
                state.events = events.map(Arc::new).collect();
            }
        }
        wanted.is_empty()
    });
    // Out of time: what was told until then is shown.
    let _ = timeout(ASK_MAX, asking).await;
    if wanted.is_empty() {
        Detail::Whole
    } else {
        Detail::Missing
    }
}

/// Asks every other server about `ids` and hands on what each tells, until `take` has enough or all
/// have answered.
async fn elsewhere(api: &Api, ids: &[AllocId], mut take: impl FnMut(v1::AllocDetail) -> bool) {
    let own = api.cluster.server_id();
    let membership = api.cluster.status().membership;
    let others = membership.voters.iter().chain(&membership.learners);
    let asked: FuturesUnordered<_> = others
        .filter(|(id, _)| **id != own)
        .flat_map(|(_, info)| {
            let questions = ids.chunks(QUESTION_ALLOCS_MAX);
            questions.map(|question| ask(api, &info.address, question))
        })
        .collect();
    let mut asked = asked;
    while let Some(details) = asked.next().await {
        for detail in details {
            if take(detail) {
                return;
            }
        }
    }
}

async fn ask(api: &Api, address: &str, ids: &[AllocId]) -> Vec<v1::AllocDetail> {
    let alloc_ids = ids.iter().map(|id| id.as_bytes().to_vec().into()).collect();
    let request = v1::DetailRequest { alloc_ids };
    let called = api
        .cluster
        .call_address(address, StreamKind::Forward, &request)
        .await;
    match called {
        Ok(v1::DetailReply { details }) => details,
        Err(error) => {
            tracing::debug!(%address, %error, "a server told nothing about allocations");
            Vec::new()
        }
    }
}
