//! Requests of tasks to the HTTP API, which their node forwards.
//!
//! ```text
//!  task --api.sock--> noded --TaskApi stream: ApiRequest, ApiBody*--> here --> http (entry)
//!       <------------       <--ApiResponse, ApiBody* (last)----------
//! ```
//!
//! A stream carries requests of one task's connection, one after the other. The node is believed in
//! nothing: the rights come from the request's token, and an allocation counts as the way of a
//! request only where the state has placed it on the node of the stream's session.

mod body;
mod owner;
mod upgrade;

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use futures::future::BoxFuture;
use protocol_error_chain::chain;
use protocol_model::{AllocId, NodeId, TaskGroup};
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::from_frame;
use protocol_wire::v1;
use tokio::runtime::Handle;

use self::owner::Owner;
use super::Gateway;
use crate::access::Sender;

/// The largest frame of a request: 16 KiB of head and 64 KiB of body, and what encodes them.
const FRAME_BYTES_MAX: usize = 128 * 1024;
/// The most bytes of a body in one frame.
const BODY_PART_BYTES_MAX: usize = 64 * 1024;
/// Headers of one request; the allow-list of nodes has fewer names.
const HEADERS_MAX: usize = 64;

/// The way of a request that a node forwarded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ViaNode {
    /// The node.
    pub(crate) node: NodeId,
    /// Its address.
    pub(crate) address: IpAddr,
    /// The allocation and its task; `None` where the state has not placed them on the node.
    pub(crate) task: Option<(AllocId, Arc<str>)>,
}

impl ViaNode {
    /// The sender of the request.
    pub(crate) fn sender(&self) -> Sender {
        Sender {
            address: self.address,
            task: self.task.clone(),
        }
    }
}

/// The answer to a request of a task.
#[derive(Debug)]
pub(crate) struct TaskAnswer {
    pub(crate) response: Response<Body>,
    /// Whether the credential is not valid, or not known and not looked up: the node counts that.
    pub(crate) is_rejected: bool,
}

/// The HTTP API, as requests of tasks reach it.
pub(crate) trait TaskRequests: std::fmt::Debug + Send + Sync {
    /// The threads that serve it.
    fn threads(&self) -> &Handle;

    /// Looks whether the request shows a valid token, which every route asks tasks for.
    ///
    /// # Errors
    /// The answer to one that does not.
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        via: &'a ViaNode,
    ) -> BoxFuture<'a, Result<(), TaskAnswer>>;

    /// Answers a request that was authenticated.
    fn answer(&self, request: Request<Body>, via: ViaNode) -> BoxFuture<'_, Response<Body>>;

    /// Serves a connection whose request asks for another protocol and was authenticated.
    fn serve_upgrade(&self, io: tokio::io::DuplexStream, via: ViaNode) -> BoxFuture<'_, ()>;
}

/// Serves a stream of requests to its end.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) {
    let Some(api) = gateway.task_requests.get().and_then(Weak::upgrade) else {
        tracing::debug!("a task's request is refused: this server serves no HTTP");
        return;
    };
    let mut reader = FrameReader::new(recv, FRAME_BYTES_MAX);
    let owner = match Owner::read(gateway, &mut reader, connection).await {
        Ok(owner) => owner,
        Err(reason) => {
            tracing::debug!(%reason, "a stream of tasks' requests was refused");
            return;
        }
    };
    let stream = Stream {
        gateway: Arc::clone(gateway),
        api: Arc::clone(&api),
        address: connection.remote_address().ip().to_canonical(),
        owner,
        writer: FrameWriter::new(send, FRAME_BYTES_MAX),
    };
    // A long list delays other clients of the API, not a heartbeat.
    let served = api.threads().spawn(stream.serve(reader));
    if let Ok(Err(reason)) = served.await {
        tracing::debug!(%reason, "a stream of tasks' requests ended");
    }
}

/// The requests of one connection of a task.
struct Stream {
    gateway: Arc<Gateway>,
    api: Arc<dyn TaskRequests>,
    address: IpAddr,
    owner: Owner,
    writer: FrameWriter,
}

impl Stream {
    async fn serve(mut self, mut reader: FrameReader) -> Result<(), String> {
        while let Some(frame) = reader.read().await.map_err(|error| chain(&error))? {
            let asked: v1::ApiRequest =
                from_frame(frame.kind, frame.body).map_err(|error| chain(&error))?;
            self.owner.check_session(&self.gateway)?;
            let via = self.via(&asked);
            let (part, more) = (asked.body.clone(), asked.more);
            let request = match request(asked) {
                Ok(request) => request,
                Err(reason) => {
                    let refused = TaskAnswer {
                        response: (StatusCode::BAD_REQUEST, reason).into_response(),
                        is_rejected: false,
                    };
                    self.send(refused).await?;
                    return Err("the node sent a malformed request".to_owned());
                }
            };
            if request.headers().contains_key(header::UPGRADE) {
                let gone = self.writer.abandoned();
                return tokio::select! {
                    served = upgrade::serve(self, reader, request, via) => served,
                    () = gone => Err("the task left".to_owned()),
                };
            }
            let (body, feed) = body::incoming(part, more, &mut reader);
            let gone = self.writer.abandoned();
            let served = async {
                let (answered, fed) = tokio::join!(self.answer(request.map(|()| body), via), feed);
                answered.and(fed)
            };
            tokio::select! {
                served = served => served?,
                () = gone => return Err("the task left".to_owned()),
            }
        }
        Ok(())
    }

    fn via(&self, asked: &v1::ApiRequest) -> ViaNode {
        let node = self.owner.node;
        let snapshot = self.gateway.cluster.snapshot();
        let alloc = AllocId::from_slice(&asked.alloc_id);
        let placed = alloc.and_then(|id| snapshot.alloc(id));
        let placed = placed.filter(|alloc| {
            let group = snapshot.group_of_alloc(alloc);
            let has_task = |group: &TaskGroup| group.tasks.iter().any(|it| it.name == asked.task);
            alloc.node_id == node && group.is_some_and(has_task)
        });
        ViaNode {
            node,
            address: self.address,
            task: placed.map(|alloc| (alloc.id, asked.task.as_str().into())),
        }
    }

    async fn answer(&mut self, request: Request<Body>, via: ViaNode) -> Result<(), String> {
        let api = Arc::clone(&self.api);
        let answer = match api.authenticate(request.headers(), &via).await {
            Ok(()) => TaskAnswer {
                response: api.answer(request, via).await,
                is_rejected: false,
            },
            Err(refused) => refused,
        };
        self.send(answer).await
    }

    async fn send(&mut self, answer: TaskAnswer) -> Result<(), String> {
        let TaskAnswer {
            response,
            is_rejected,
        } = answer;
        let (head, body) = response.into_parts();
        let mut headers = api_headers(&head.headers);
        let has_length = head.headers.contains_key(header::CONTENT_LENGTH);
        let length = body.size_hint().exact().filter(|_| !has_length);
        if let Some(length) = length.filter(|_| may_have_length(head.status)) {
            headers.push(v1::ApiHeader {
                name: header::CONTENT_LENGTH.as_str().to_owned(),
                value: length.to_string().into(),
            });
        }
        let head = v1::ApiResponse {
            status: head.status.as_u16().into(),
            headers,
            rejected: is_rejected,
        };
        body::answer(&head, body, &mut self.writer).await
    }
}

/// Whether an answer of this status may have a `Content-Length` (RFC 9110, 8.6).
fn may_have_length(status: StatusCode) -> bool {
    let has_none = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    !status.is_informational() && !has_none
}

/// The request that a node forwards, without its body.
///
/// # Errors
/// Where a part of it is none of HTTP: the text names it.
fn request(asked: v1::ApiRequest) -> Result<Request<()>, String> {
    let v1::ApiRequest {
        alloc_id: _,
        task: _,
        peer_uid: _,
        method,
        target,
        headers,
        body: _,
        more: _,
    } = asked;
    if !target.starts_with('/') {
        return Err("the target of a request begins with a slash".to_owned());
    }
    if headers.len() > HEADERS_MAX {
        return Err(format!("more than {HEADERS_MAX} headers"));
    }
    let mut request = Request::builder().method(method.as_str()).uri(target);
    for v1::ApiHeader { name, value } in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        let value = HeaderValue::from_maybe_shared(value).map_err(|error| error.to_string())?;
        request = request.header(name, value);
    }
    request.body(()).map_err(|error| error.to_string())
}

/// Headers as the wire has them.
fn api_headers(headers: &HeaderMap) -> Vec<v1::ApiHeader> {
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| v1::ApiHeader {
            name: name.as_str().to_owned(),
            value: value.as_bytes().to_vec().into(),
        })
        .collect()
}
