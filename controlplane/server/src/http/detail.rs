//! Task events of allocations, from whichever server their nodes are in a session with.
//!
//! ```text
//!   known here, and the node was heard here lately ----------> merged
//!   terminal, or not taken up by its node: nothing is missing -> as it is
//!   else: all other servers are asked at once --known-------> merged
//!                                             \-in time not-> as far as it is known here, and the
//!                                                             answer says so
//! ```

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::response::Response;
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use protocol_model::{AllocId, Allocation, NodeId, TaskEvent};
use protocol_transport::StreamKind;
use protocol_wire::v1;
use tokio::time::timeout;

use super::Api;

/// How long other servers are asked: a reader rather sees an answer without events than waits.
const ASK_MAX: Duration = Duration::from_millis(100);
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
    let mut here: BTreeMap<NodeId, bool> = BTreeMap::new();
    for (place, alloc) in allocs.iter_mut().enumerate() {
        let known = api.gateway.detail().of(alloc.id);
        let is_newest = known.as_ref().is_some_and(|detail| {
            let node = detail.node();
            *here
                .entry(node)
                .or_insert_with(|| api.gateway.is_here(node))
        });
        if let Some(detail) = known {
            detail.merge_into(Arc::make_mut(alloc));
        }
        // A terminal allocation's last word is in the state; one that no node has taken up has no
        // events.
        if !is_newest && !alloc.client_terminal() && !alloc.task_states.is_empty() {
            wanted.insert(alloc.id, place);
        }
    }
    if wanted.is_empty() {
        return Detail::Whole;
    }
    let mut newest: Vec<AllocId> = wanted.keys().copied().collect();
    newest.sort_by_key(|id| std::cmp::Reverse(allocs[wanted[id]].create_index));
    newest.truncate(LIST_ALLOCS_MAX);
    merge_told(allocs, wanted, elsewhere(api, &newest)).await
}

/// Puts in what is `told` of the `wanted` allocations, until nothing is missing, nobody says any
/// more, or the time is up.
async fn merge_told(
    allocs: &mut [Arc<Allocation>],
    mut wanted: BTreeMap<AllocId, usize>,
    told: impl Stream<Item = Vec<v1::AllocDetail>>,
) -> Detail {
    let mut told = pin!(told);
    let merging = async {
        while !wanted.is_empty()
            && let Some(details) = told.next().await
        {
            for detail in details {
                let id = AllocId::from_slice(&detail.alloc_id);
                if let Some(place) = id.and_then(|id| wanted.remove(&id)) {
                    merge_one(Arc::make_mut(&mut allocs[place]), detail);
                }
            }
        }
    };
    // Out of time: what was told until then is shown.
    let _ = timeout(ASK_MAX, merging).await;
    if wanted.is_empty() {
        Detail::Whole
    } else {
        Detail::Missing
    }
}

fn merge_one(alloc: &mut Allocation, detail: v1::AllocDetail) {
    for task in detail.tasks {
        if let Some(state) = alloc.task_states.get_mut(&task.name) {
            let events = task.events.into_iter().map(TaskEvent::from);
            state.events = events.map(Arc::new).collect();
        }
    }
}

/// Asks every other server about `ids`, and hands on what each tells.
fn elsewhere(api: &Api, ids: &[AllocId]) -> impl Stream<Item = Vec<v1::AllocDetail>> {
    let own = api.cluster.server_id();
    let membership = api.cluster.status().membership;
    let others = membership.voters.into_iter().chain(membership.learners);
    others
        .filter(|(id, _)| *id != own)
        .flat_map(|(_, info)| {
            let questions = ids.chunks(QUESTION_ALLOCS_MAX);
            questions.map(move |question| ask(api, info.address.clone(), question))
        })
        .collect::<FuturesUnordered<_>>()
}

async fn ask(api: &Api, address: String, ids: &[AllocId]) -> Vec<v1::AllocDetail> {
    let alloc_ids = ids.iter().map(|id| id.as_bytes().to_vec().into()).collect();
    let request = v1::DetailRequest { alloc_ids };
    let called = api
        .cluster
        .call_address(&address, StreamKind::Forward, &request)
        .await;
    match called {
        Ok(v1::DetailReply { details }) => details,
        Err(error) => {
            tracing::debug!(%address, %error, "a server told nothing about allocations");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use futures::stream;
    use protocol_model::{TaskEventKind, TaskState, UnixNanos};
    use tokio::time::Instant;

    use super::*;

    /// Running allocations of these numbers, and where they stand.
    fn shown(numbers: &[u128]) -> (Vec<Arc<Allocation>>, BTreeMap<AllocId, usize>) {
        let alloc = |number: &u128| {
            let id = AllocId::from_u128(*number);
            let mut alloc = hack_testkit::allocs::bare(id, NodeId::from_u128(1));
            let state = TaskState::default();
            alloc.task_states.insert("main".to_owned(), state);
            Arc::new(alloc)
        };
        let allocs: Vec<_> = numbers.iter().map(alloc).collect();
        let places = allocs.iter().enumerate();
        let wanted = places.map(|(place, alloc)| (alloc.id, place)).collect();
        (allocs, wanted)
    }

    /// What a server tells that knows the allocation of this number.
    fn told(number: u128) -> Vec<v1::AllocDetail> {
        let event = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
        vec![v1::AllocDetail {
            alloc_id: AllocId::from_u128(number).as_bytes().to_vec().into(),
            tasks: vec![v1::TaskReport {
                name: "main".to_owned(),
                events: vec![(&event).into()],
                ..v1::TaskReport::default()
            }],
        }]
    }

    fn header(detail: Detail) -> Option<String> {
        let mut response = "[]".into_response();
        detail.tell(&mut response);
        let value = response.headers().get("x-drover-detail")?;
        Some(value.to_str().expect("text").to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_a_question_and_never_answers_holds_an_answer_up_for_100_ms() {
        let (mut allocs, wanted) = shown(&[1, 2]);
        let answers = stream::iter([told(1)]).chain(stream::pending());
        let begun = Instant::now();
        let detail = merge_told(&mut allocs, wanted, answers).await;
        // Virtual time, which nothing else moves.
        assert_eq!(begun.elapsed().as_millis(), 100);
        assert_eq!(header(detail).as_deref(), Some("missing"));
        let events = |place: usize| allocs[place].task_states["main"].events.len();
        assert_eq!((events(0), events(1)), (1, 0), "what was told is shown");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_once_nothing_is_missing() {
        let (mut allocs, wanted) = shown(&[1]);
        let answers = stream::iter([Vec::new(), told(1)]).chain(stream::pending());
        let begun = Instant::now();
        let detail = merge_told(&mut allocs, wanted, answers).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(header(detail), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_server_knows_is_missing_at_once() {
        let (mut allocs, wanted) = shown(&[1]);
        let begun = Instant::now();
        let answers = stream::iter([Vec::new(), told(2)]);
        let detail = merge_told(&mut allocs, wanted, answers).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(header(detail).as_deref(), Some("missing"));
    }
}
