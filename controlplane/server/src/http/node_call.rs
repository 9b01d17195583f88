//! Calls that a node answers: opened, read frame by frame, ended.

use std::time::Duration;

use axum::http::StatusCode;
use protocol_model::{AllocId, NodeId};
use protocol_transport::FrameReader;
use protocol_wire::kind::from_frame;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::{self, node_request::Request};
use tokio::time::timeout;

use super::Api;
use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::lookup;
use crate::gateway::NodeCallStream;

/// How long a node may take for an answer that is one document. Streams have no such limit: there
/// is nothing wrong with a task that prints nothing, and a dead connection ends by itself.
const DOCUMENT_MAX: Duration = Duration::from_secs(30);

/// An open call.
pub(super) struct NodeCall(pub(super) NodeCallStream);

/// One step of a call.
pub(super) enum Step {
    /// Something that belongs to the answer.
    Reply(Reply),
    /// Nothing follows.
    End,
}

impl NodeCall {
    /// Opens a call about an allocation, to the node that has it.
    ///
    /// # Errors
    /// Where the allocation is not known, or its node is out of reach.
    pub(super) async fn about(api: &Api, id: AllocId, request: Request) -> Result<Self, HttpError> {
        let known = api.cluster.snapshot().alloc(id).map(|alloc| alloc.node_id);
        let node = match known {
            Some(node) => node,
            // It may be too new for this server.
            None => lookup::alloc(&api.cluster.consistent().await?, id)?.node_id,
        };
        Self::to(api, node, Some(id), request).await
    }

    /// Opens a call to a node.
    ///
    /// # Errors
    /// Where it is out of reach.
    pub(super) async fn to(
        api: &Api,
        node: NodeId,
        alloc: Option<AllocId>,
        request: Request,
    ) -> Result<Self, HttpError> {
        let alloc_id = alloc
            .map(|id| id.as_bytes().to_vec())
            .unwrap_or_default()
            .into();
        let request = v1::NodeRequest {
            alloc_id,
            request: Some(request),
        };
        Ok(Self(api.gateway.call_node(node, &request).await?))
    }

    /// The next part of the answer.
    ///
    /// # Errors
    /// What the node refuses with, or that it broke off.
    pub(super) async fn next(&mut self) -> Result<Step, HttpError> {
        next(&mut self.0.reader).await
    }

    /// The answer of a call that answers one JSON document, or nothing.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(super) async fn document(self) -> Result<Option<serde_json::Value>, HttpError> {
        timeout(DOCUMENT_MAX, self.whole_document())
            .await
            .map_err(|_| {
                HttpError::internal(format!("the node did not answer within {DOCUMENT_MAX:?}"))
            })?
    }

    async fn whole_document(mut self) -> Result<Option<serde_json::Value>, HttpError> {
        let mut document = None;
        loop {
            match self.next().await? {
                Step::End => return Ok(document),
                Step::Reply(Reply::Json(bytes)) => {
                    let value = serde_json::from_slice(&bytes).map_err(|error| {
                        HttpError::internal(format!("the node's answer: {error}"))
                    })?;
                    document = Some(value);
                }
                Step::Reply(_) => {}
            }
        }
    }
}

/// A call that answers one JSON document, as the answer of the request.
///
/// # Errors
/// As [`NodeCall::next`].
pub(super) async fn forward_document(ask: &Ask, id: AllocId, request: Request) -> Answered {
    let document = NodeCall::about(&ask.api, id, request)
        .await?
        .document()
        .await?;
    let index = ask.api.cluster.snapshot().index();
    match document {
        Some(value) => ask.answer(&value, index),
        None => ask.done(index),
    }
}

/// The next part of an answer.
///
/// # Errors
/// What the node refuses with, or that it broke off.
pub(super) async fn next(reader: &mut FrameReader) -> Result<Step, HttpError> {
    let frame = reader
        .expect()
        .await
        .map_err(|error| HttpError::internal(format!("the node broke off: {error}")))?;
    let reply: v1::NodeReply = from_frame(frame.kind, frame.body)
        .map_err(|error| HttpError::internal(format!("the node's answer: {error}")))?;
    match reply.reply {
        None | Some(Reply::End(_)) => Ok(Step::End),
        Some(Reply::Error(error)) => Err(refusal(error)),
        Some(other) => Ok(Step::Reply(other)),
    }
}

fn refusal(error: v1::NodeError) -> HttpError {
    let status = u16::try_from(error.status)
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok())
        .filter(|status| status.is_client_error() || status.is_server_error())
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    HttpError::new(status, error.message)
}
