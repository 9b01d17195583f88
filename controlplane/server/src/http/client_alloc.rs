//! `/v1/client/allocation/:id`, `/v1/client/stats`, `/v1/client/metadata`: what the node of an
//! allocation is asked to do or to measure.

use protocol_api::client::{
    AllocationStats, ApplyNodeMetadata, CollectAllocation, CollectNode, ExecAllocation,
    NodeMetadataRequest, NodeStats, ReadNodeMetadata, RestartAllocation, RestartRequest,
    SignalAllocation, SignalRequest,
};
use protocol_model::NodeId;
use protocol_wire::v1;
use protocol_wire::v1::node_request::Request;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::node_call::{NodeCall, forward_document};
use super::own_node::OwnNode;
use super::route::{Routes, routes};
use super::{alloc, exec, lookup};

pub(super) const ROUTES: Routes = routes![
    AllocationStats => stats,
    RestartAllocation => restart,
    SignalAllocation => signal,
    ExecAllocation => exec::exec,
    CollectAllocation => collect,
    CollectNode => collect_host,
    NodeStats => host_stats,
    ReadNodeMetadata => read_metadata,
    ApplyNodeMetadata => apply_metadata,
];

async fn stats(ask: &Ask) -> Answered {
    let task = ask.query.get("task").unwrap_or("").to_owned();
    let request = Request::Stats(v1::StatsRequest { task });
    forward_document(ask, alloc::id(ask)?, request).await
}

async fn collect(ask: &Ask) -> Answered {
    let request = Request::CollectGarbage(v1::CollectGarbageRequest {});
    forward_document(ask, alloc::id(ask)?, request).await
}

async fn restart(ask: &Ask) -> Answered {
    let id = alloc::id(ask)?;
    let RestartRequest {
        task_name: task,
        all_tasks,
    } = ask.json_or_default()?;
    if all_tasks && !task.is_empty() {
        return Err(HttpError::bad_request(
            "TaskName and AllTasks exclude each other",
        ));
    }
    forward_document(
        ask,
        id,
        Request::Restart(v1::RestartRequest { task, all_tasks }),
    )
    .await
}

async fn signal(ask: &Ask) -> Answered {
    let id = alloc::id(ask)?;
    let SignalRequest { task, signal } = ask.json()?;
    if signal.is_empty() {
        return Err(HttpError::bad_request("must provide a signal"));
    }
    forward_document(ask, id, Request::Signal(v1::SignalRequest { task, signal })).await
}

async fn host_stats(ask: &Ask) -> Answered {
    let request = Request::HostStats(v1::HostStatsRequest {});
    of_node(ask, host(ask)?, request).await
}

async fn collect_host(ask: &Ask) -> Answered {
    let request = Request::CollectGarbage(v1::CollectGarbageRequest {});
    of_node(ask, host(ask)?, request).await
}

async fn read_metadata(ask: &Ask) -> Answered {
    let request = Request::ReadMeta(v1::ReadMetaRequest {});
    of_node(ask, host(ask)?, request).await
}

/// The node checks the changes: it alone knows those before.
async fn apply_metadata(ask: &Ask) -> Answered {
    let NodeMetadataRequest { node_id, meta } = ask.json()?;
    // First the body's, as in Nomad: a task's URL names the task's node, whether it said so or not.
    let node = match node_id.as_str() {
        "" => host(ask)?,
        named => lookup::id("a node", named)?,
    };
    let changes = meta.into_iter();
    let changes = changes.map(|(key, value)| v1::MetaChange { key, value });
    let request = Request::ApplyMeta(v1::ApplyMetaRequest {
        changes: changes.collect(),
    });
    of_node(ask, node, request).await
}

/// The node that `?node_id=` names; the server's own one where it is absent.
fn host(ask: &Ask) -> Result<NodeId, HttpError> {
    match ask.query.text("node_id") {
        Some(node) => lookup::id("a node", node),
        None => own_node(ask),
    }
}

/// The node that runs as a child of this server.
fn own_node(ask: &Ask) -> Result<NodeId, HttpError> {
    match ask.api.own_node() {
        OwnNode::Absent => Err(HttpError::bad_request(
            "must provide ?node_id: this server has no node of its own",
        )),
        OwnNode::NotJoined => Err(HttpError::not_found(
            "No path to node: this server's node has not joined",
        )),
        OwnNode::Known(node) => Ok(node),
        OwnNode::Unreadable(error) => Err(HttpError::internal(error)),
    }
}

/// A call to a node that answers one JSON document or none, as the answer of the request.
///
/// # Errors
/// As [`NodeCall::next`].
pub(super) async fn of_node(ask: &Ask, node: NodeId, request: Request) -> Answered {
    let document = NodeCall::to(&ask.api, node, None, request)
        .await?
        .document()
        .await?;
    let index = ask.api.cluster.snapshot().index();
    match document {
        Some(value) => ask.answer(&value, index),
        None => ask.done(index),
    }
}
