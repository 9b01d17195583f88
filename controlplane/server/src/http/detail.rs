//! Task events of one allocation, from whichever server its node is in a session with.

use std::time::Duration;

use futures::future::join_all;
use protocol_model::{AllocId, Allocation, TaskEvent};
use protocol_transport::StreamKind;
use protocol_wire::v1;
use tokio::time::timeout;

use super::Api;

/// How long other servers are asked: a reader rather sees an answer without events than waits.
const ASK_MAX: Duration = Duration::from_millis(100);

/// Whether everything that could be shown is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Detail {
    /// It is.
    Whole,
    /// Events are missing: the server that knows them did not answer in time.
    Missing,
}

/// Puts the newest events into an allocation that is about to be shown.
pub(super) async fn merge(api: &Api, alloc: &mut Allocation) -> Detail {
    if let Some(detail) = api.gateway.detail().of(alloc.id) {
        detail.merge_into(alloc);
        return Detail::Whole;
    }
    if merge_elsewhere(api, alloc).await {
        return Detail::Whole;
    }
    // A terminal allocation's last word is in the state; one that no node has taken up has no
    // events.
    let silent = alloc.client_terminal() || alloc.task_states.is_empty();
    if silent {
        Detail::Whole
    } else {
        Detail::Missing
    }
}

/// Asks the other servers. Whether one of them knew something.
async fn merge_elsewhere(api: &Api, alloc: &mut Allocation) -> bool {
    let own = api.cluster.server_id();
    let membership = api.cluster.status().membership;
    let others = membership.voters.iter().chain(&membership.learners);
    let addresses: Vec<&str> = others
        .filter(|(id, _)| **id != own)
        .map(|(_, info)| info.address.as_str())
        .collect();
    if addresses.is_empty() {
        return false;
    }
    let asked = addresses
        .into_iter()
        .map(|address| ask(api, address, alloc.id));
    let mut found = false;
    for detail in join_all(asked).await.into_iter().flatten() {
        for task in detail.tasks {
            let Some(state) = alloc.task_states.get_mut(&task.name) else {
                continue;
            };
            state.events = task.events.into_iter().map(TaskEvent::from).collect();
            found = true;
        }
    }
    found
}

async fn ask(api: &Api, address: &str, id: AllocId) -> Option<v1::AllocDetail> {
    let request = v1::DetailRequest {
        alloc_ids: vec![id.as_bytes().to_vec().into()],
    };
    let call = api
        .cluster
        .call_address(address, StreamKind::Forward, &request);
    match timeout(ASK_MAX, call).await {
        Ok(Ok(v1::DetailReply { details })) => details.into_iter().next(),
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "a server told nothing about an allocation");
            None
        }
        Err(_) => None,
    }
}
