//! One request: judged by the socket's guard, forwarded, answered.
//!
//! ```text
//!  guard --401, 403, 429-->
//!    | Forward
//!    v            lost before the answer begins: GET asks the next session's server within 10 s,
//!  exchange ----> others 502
//!    | answer
//!    v
//!  body, part by part; or bytes both ways after 101
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use noded_core::task_api::head::BadHead;
use noded_core::task_api::{Judged, Verdict};
use protocol_wire::v1;
use tokio::sync::OwnedSemaphorePermit;

use super::credential;
use super::exchange::{self, Asked, Lost};
use super::listen::{Connection, Socket};
use super::stream::{ApiStream, BODY_PART_BYTES_MAX};
use super::upgraded;
use crate::clock;

/// Headers that are forwarded. `Host`, `Origin` and everything about the connection are not.
const FORWARDED: [&str; 5] = [
    "accept",
    "accept-encoding",
    "authorization",
    "content-type",
    "x-nomad-token",
];
/// And those of a request for a WebSocket.
const OF_WEBSOCKET: [&str; 6] = [
    "upgrade",
    "connection",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
];
/// Headers of answers that are about the server's own connection (RFC 9110, 7.6.1).
const HOP_BY_HOP: [&str; 5] = [
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
];

pub(super) type AnswerBody = UnsyncBoxBody<Bytes, std::io::Error>;
pub(super) type Answer = Response<AnswerBody>;

/// A request under way: it occupies a place of its socket and one of the node.
#[derive(Debug)]
pub(super) struct UnderWay {
    socket: Arc<Socket>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.socket.guard.lock().end();
    }
}

/// Serves one request; `refused` where it stands for a head that two parsers could read
/// differently.
pub(super) async fn serve(
    connection: Arc<Connection>,
    request: Request<Incoming>,
    refused: Option<BadHead>,
) -> Result<Answer, Infallible> {
    if let Some(reason) = refused {
        let message = format!("the request is refused: {reason}");
        return Ok(text(StatusCode::BAD_REQUEST, message));
    }
    // hyper alone knows where chunks end, and no head is looked at behind them.
    let is_last = [header::TRANSFER_ENCODING, header::UPGRADE]
        .iter()
        .any(|name| request.headers().contains_key(name));
    let mut answer = answer(connection, request).await;
    if is_last && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(header::CONNECTION, close);
    }
    Ok(answer)
}

async fn answer(connection: Arc<Connection>, request: Request<Incoming>) -> Answer {
    let socket = Arc::clone(&connection.socket);
    let shown = match credential::of(request.headers()) {
        Ok(credential) => socket.shared.tokens.judge(credential, &socket.guard),
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem.to_owned()),
    };
    let verdict = socket.guard.lock().begin(&shown, clock::moment());
    let charge = match verdict {
        Verdict::Unauthorized => return text(StatusCode::UNAUTHORIZED, "Unauthorized"),
        Verdict::Forbidden => return text(StatusCode::FORBIDDEN, "Forbidden"),
        Verdict::TooMany { limit, retry_after } => return too_many(limit.name(), retry_after),
        Verdict::Forward(charge) => charge,
    };
    let judge = |judged| {
        let mut guard = socket.guard.lock();
        guard.judged(&shown, charge, judged, clock::moment());
    };
    let permit = Arc::clone(&socket.shared.under_way).try_acquire_owned();
    let is_full = permit.is_err();
    let under_way = UnderWay {
        socket: Arc::clone(&socket),
        _permit: permit.ok(),
    };
    if is_full {
        judge(Judged::Unknown);
        return too_many("requests of this node", Duration::from_secs(1));
    }
    let (mut parts, body) = request.into_parts();
    let asked = Asked {
        head: head(&connection, &parts.method, &parts.uri, &parts.headers),
        is_repeatable: body.is_end_stream() && matches!(parts.method, Method::GET | Method::HEAD),
    };
    let begun = match exchange::begin(&connection, asked, body).await {
        Ok(begun) => begun,
        Err(lost) => {
            judge(Judged::Unknown);
            return lost_answer(lost);
        }
    };
    let exchange::Begun { head, mut stream } = begun;
    judge(judgment_of(&head));
    if head.rejected && head.status != u32::from(StatusCode::TOO_MANY_REQUESTS.as_u16()) {
        if exchange::is_over(&mut stream).await {
            connection.stream.lock().replace(stream);
        }
        return text(StatusCode::FORBIDDEN, "Forbidden");
    }
    let Some(answer) = answer_of(head) else {
        return text(StatusCode::BAD_GATEWAY, "the server's answer has no status");
    };
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        upgraded::begin(parts.extensions.remove(), stream, (connection, under_way));
        return answer;
    }
    if !is_short(answer.headers()) {
        return answer.map(|_| rest(stream, connection, under_way, Bytes::new()));
    }
    // Head and body in one write.
    match stream.receiving.receive::<v1::ApiBody>().await {
        Ok(v1::ApiBody { data, last }) if last => {
            give_back(stream, &connection);
            answer.map(|_| Full::new(data).map_err(never).boxed_unsync())
        }
        Ok(v1::ApiBody { data, .. }) => answer.map(|_| rest(stream, connection, under_way, data)),
        Err(reason) => {
            tracing::debug!(%reason, "an answer to a task broke off");
            text(StatusCode::BAD_GATEWAY, "the answer broke off")
        }
    }
}

/// Whether the server has the whole body, and it comes in one part.
fn is_short(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    length.is_some_and(|length: usize| length <= BODY_PART_BYTES_MAX)
}

/// Keeps a stream for the connection's next request.
fn give_back(stream: ApiStream, connection: &Connection) {
    if stream.is_between {
        connection.stream.lock().replace(stream);
    }
}

/// The server's judgment of a credential. A server that is overloaded or without a leader may have
/// answered before it judged.
fn judgment_of(head: &v1::ApiResponse) -> Judged {
    match (head.rejected, head.status) {
        (true, _) => Judged::Rejected,
        (false, 429 | 500..) => Judged::Unknown,
        (false, _) => Judged::Valid,
    }
}

/// The answer with this head, without a body; `None` where it has no status.
fn answer_of(head: v1::ApiResponse) -> Option<Answer> {
    let status = StatusCode::from_u16(u16::try_from(head.status).ok()?).ok()?;
    let mut answer = Response::new(empty());
    *answer.status_mut() = status;
    let is_upgrade = status == StatusCode::SWITCHING_PROTOCOLS;
    for v1::ApiHeader { name, value } in head.headers {
        if !is_upgrade && (HOP_BY_HOP.contains(&name.as_str()) || name == "upgrade") {
            continue;
        }
        let name = HeaderName::try_from(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_maybe_shared(value)) {
            answer.headers_mut().append(name, value);
        }
    }
    Some(answer)
}

/// The head as it is forwarded: rebuilt from its fields.
fn head(
    connection: &Connection,
    method: &Method,
    uri: &hyper::Uri,
    headers: &HeaderMap,
) -> v1::ApiRequest {
    let owner = &connection.socket.owner;
    let of_websocket: &[&str] = match headers.contains_key(header::UPGRADE) {
        true => &OF_WEBSOCKET,
        false => &[],
    };
    let names = FORWARDED.iter().chain(of_websocket);
    let forwarded = names.flat_map(|name| {
        let values = headers.get_all(*name).iter();
        values.map(|value| v1::ApiHeader {
            name: (*name).to_owned(),
            value: value.as_bytes().to_vec().into(),
        })
    });
    let target = uri.path_and_query().map(|target| target.as_str());
    v1::ApiRequest {
        alloc_id: owner.alloc.as_bytes().to_vec().into(),
        task: owner.task.clone(),
        peer_uid: connection.uid,
        method: method.as_str().to_owned(),
        target: target.unwrap_or("/").to_owned(),
        headers: forwarded.collect(),
        body: Bytes::new(),
        more: false,
    }
}

/// The body of an answer as it comes, behind its `first` part. With its last part the stream is
/// free for the next request.
fn rest(
    stream: ApiStream,
    connection: Arc<Connection>,
    under_way: UnderWay,
    first: Bytes,
) -> AnswerBody {
    let rest = Some((stream, connection, under_way));
    let parts = futures::stream::unfold(rest, async |rest| {
        let (mut stream, connection, under_way) = rest?;
        match stream.receiving.receive::<v1::ApiBody>().await {
            Ok(v1::ApiBody { data, last }) if last => {
                give_back(stream, &connection);
                Some((Ok(Frame::data(data)), None))
            }
            Ok(v1::ApiBody { data, .. }) => {
                Some((Ok(Frame::data(data)), Some((stream, connection, under_way))))
            }
            Err(reason) => Some((Err(std::io::Error::other(reason)), None)),
        }
    });
    let first = (!first.is_empty()).then(|| Ok(Frame::data(first)));
    StreamBody::new(futures::stream::iter(first).chain(parts)).boxed_unsync()
}

fn lost_answer(lost: Lost) -> Answer {
    match lost {
        Lost::NoSession => {
            let message = "the node has no session with a server that serves tasks";
            retry_in(
                text(StatusCode::SERVICE_UNAVAILABLE, message),
                Duration::from_secs(1),
            )
        }
        Lost::OutcomeUnknown(reason) => {
            tracing::debug!(%reason, "a request of a task was lost");
            let message = "the outcome is not known: the server was lost; look before retrying";
            text(StatusCode::BAD_GATEWAY, message)
        }
        Lost::BodyTooSlow => text(StatusCode::REQUEST_TIMEOUT, "no whole body within 60s"),
        Lost::BodyBroken => text(StatusCode::BAD_REQUEST, "the body broke off"),
    }
}

fn too_many(limit: &str, retry_after: Duration) -> Answer {
    let seconds = seconds(retry_after);
    let message =
        format!("Too many requests: the limit of {limit} is reached; try again in {seconds}s");
    retry_in(text(StatusCode::TOO_MANY_REQUESTS, message), retry_after)
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

fn retry_in(mut answer: Answer, time: Duration) -> Answer {
    let headers = answer.headers_mut();
    headers.insert(header::RETRY_AFTER, seconds(time).into());
    answer
}

fn text(status: StatusCode, message: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(message.into()).map_err(never).boxed_unsync());
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

fn empty() -> AnswerBody {
    Full::default().map_err(never).boxed_unsync()
}

fn never(never: Infallible) -> std::io::Error {
    match never {}
}
