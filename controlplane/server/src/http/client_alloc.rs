//! `/v1/client/allocation/:id` and `/v1/client/stats`: what the node of an allocation is asked to
//! do or to measure.

use protocol_model::{AllocId, NodeId, nullable::or_default};
use protocol_wire::v1;
use protocol_wire::v1::node_request::Request;
use serde::Deserialize;

use super::ask::{Ask, Verb};
use super::error::{Answered, HttpError};
use super::node_call::{NodeCall, forward_document};
use super::{exec, lookup};
use crate::dev;

pub(super) async fn route(ask: &mut Ask, id: &str, rest: &[&str]) -> Answered {
    let id: AllocId = lookup::id("an allocation", id)?;
    match (ask.verb, rest) {
        (Verb::Get, ["stats"]) => {
            let task = ask.query.get("task").unwrap_or("").to_owned();
            forward_document(ask, id, Request::Stats(v1::StatsRequest { task })).await
        }
        (Verb::Put, ["restart"]) => restart(ask, id).await,
        (Verb::Put, ["signal"]) => signal(ask, id).await,
        (Verb::Get, ["exec"]) => exec::exec(ask, id).await,
        (Verb::Get | Verb::Put, ["gc"]) => {
            let request = Request::CollectGarbage(v1::CollectGarbageRequest {});
            forward_document(ask, id, request).await
        }
        (_, ["checks" | "snapshot" | "pause"]) => {
            Err(HttpError::not_built("this is not part of this release"))
        }
        (_, ["stats" | "restart" | "signal" | "exec" | "gc"]) => Err(HttpError::method()),
        _ => Err(HttpError::no_route()),
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct RestartBody {
    #[serde(deserialize_with = "or_default")]
    task_name: String,
    #[serde(deserialize_with = "or_default")]
    all_tasks: bool,
}

async fn restart(ask: &Ask, id: AllocId) -> Answered {
    let RestartBody {
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

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct SignalBody {
    #[serde(deserialize_with = "or_default")]
    task: String,
    #[serde(deserialize_with = "or_default")]
    signal: String,
}

async fn signal(ask: &Ask, id: AllocId) -> Answered {
    let SignalBody { task, signal } = ask.json()?;
    if signal.is_empty() {
        return Err(HttpError::bad_request("must provide a signal"));
    }
    forward_document(ask, id, Request::Signal(v1::SignalRequest { task, signal })).await
}

/// `/v1/client/stats`, `/v1/client/gc`: of the node that `?node_id=` names, of the server's own one
/// where it is absent.
pub(super) async fn host(ask: &Ask, action: &str) -> Answered {
    let request = match (ask.verb, action) {
        (Verb::Get, "stats") => Request::HostStats(v1::HostStatsRequest {}),
        (Verb::Get | Verb::Put, "gc") => Request::CollectGarbage(v1::CollectGarbageRequest {}),
        (_, "stats" | "gc") => return Err(HttpError::method()),
        _ => return Err(HttpError::no_route()),
    };
    let node = match ask.query.text("node_id") {
        Some(node) => lookup::id("a node", node)?,
        None => own_node(ask)?,
    };
    of_node(ask, node, request).await
}

/// The node that runs as a child of this server.
fn own_node(ask: &Ask) -> Result<NodeId, HttpError> {
    let Some(file) = &ask.api.config.own_node else {
        return Err(HttpError::bad_request(
            "must provide ?node_id: this server has no node of its own",
        ));
    };
    let known = dev::read_node_identity(file).map_err(|error| {
        let file = file.display();
        HttpError::internal(format!("cannot read the node's identity {file}: {error}"))
    })?;
    known.ok_or_else(|| HttpError::not_found("No path to node: this server's node has not joined"))
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
