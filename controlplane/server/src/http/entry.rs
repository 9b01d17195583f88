//! Where a request comes in: read, checked, routed, and answered whatever happens.

use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use parking_lot::Mutex;
use protocol_api::{Endpoint, Found};
use protocol_transport::LineLimit;
use tokio::sync::watch;

use super::ask::Ask;
use super::body::{Bodies, BodyUse, WholeBody};
use super::error::{Answered, HttpError};
use super::gate::{Gate, Shown};
use super::gzip;
use super::listen::Held;
use super::origin;
use super::query::{Plus, Query, decode};
use super::requested::Requested;
use super::route;
use super::{Api, ClientAddress};
use crate::access::Credential;
use crate::gateway::ViaNode;

/// The address of a request that came over no connection: of a test.
const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

static FAILED: LineLimit = LineLimit::new();
static PANICKED: LineLimit = LineLimit::new();

/// What every request starts with.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) api: Api,
    pub(super) stopped: watch::Receiver<bool>,
    /// What the operator adds to every answer.
    headers: Arc<Vec<(HeaderName, HeaderValue)>>,
    bodies: Bodies,
}

impl Entry {
    /// Where requests for `api` come in. Headers that are none are said once and left out.
    pub(super) fn new(api: Api, stopped: watch::Receiver<bool>) -> Self {
        let mut headers = Vec::new();
        for (name, value) in &api.config.http.response_headers {
            match (
                HeaderName::try_from(name.as_str()),
                HeaderValue::try_from(value.as_str()),
            ) {
                (Ok(name), Ok(value)) => headers.push((name, value)),
                _ => {
                    tracing::warn!(%name, %value, "http.response_headers: not a valid header, ignored");
                }
            }
        }
        Self {
            bodies: Bodies::new(api.config.limits.body_bytes),
            api,
            stopped,
            headers: Arc::new(headers),
        }
    }
}

/// Answers one request. A panic on the way is an answer too: 500, and a line in the log.
pub(super) async fn handle(State(entry): State<Entry>, request: Request) -> Response {
    let headers = Arc::clone(&entry.headers);
    let line = format!("{} {}", request.method(), request.uri().path());
    let packs = gzip::accepted(request.headers());
    let answered = AssertUnwindSafe(answer(entry, request))
        .catch_unwind()
        .await;
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tell_failure(&line, &error);
            error.into_response()
        }
        Err(_) => {
            if let Some(left_out) = PANICKED.admit() {
                tracing::error!(request = %line, left_out, "HTTP handler panicked");
            }
            HttpError::internal("internal error: see the server's log").into_response()
        }
    };
    if packs {
        response = gzip::pack(response).await;
    }
    for (name, value) in headers.iter() {
        response.headers_mut().insert(name.clone(), value.clone());
    }
    response
}

/// Counts an answer that says that this server or the cluster failed, and logs some of them: a
/// client that repeats a request must not fill the log. What this release lacks is no failure.
fn tell_failure(line: &str, error: &HttpError) {
    let HttpError {
        status, message, ..
    } = error;
    if !status.is_server_error() || *status == StatusCode::NOT_IMPLEMENTED {
        return;
    }
    metrics::counter!("drover_http_failures").increment(1);
    if let Some(left_out) = FAILED.admit() {
        tracing::warn!(request = %line, %status, error = %message, left_out, "HTTP request failed");
    }
}

async fn answer(entry: Entry, request: Request) -> Answered {
    let Entry {
        api,
        stopped,
        headers: _,
        bodies,
    } = entry;
    let (mut parts, body) = request.into_parts();
    let uri = match OriginalUri::from_request_parts(&mut parts, &()).await {
        Ok(OriginalUri(uri)) => uri,
        Err(never) => match never {},
    };
    let query = Query::parse(uri.query().unwrap_or(""))?;
    let path: Vec<String> = segments(uri.path())?;
    let method = method(&parts.method);
    if let Some(region) = query.text("region")
        && region != api.config.region.as_str()
    {
        return Err(HttpError::not_found("No path to region"));
    }
    let via = parts.extensions.remove::<ViaNode>();
    // No browser is on the way of a task's request, and neither `Host` nor `Origin` is forwarded.
    if via.is_none() {
        origin::check(&parts.headers, uri.authority(), &api.config)?;
    }
    let Found {
        endpoint,
        parameters,
    } = match protocol_api::find(&path, method) {
        Ok(found) => found,
        Err(error) => return route::not_found(&error, &path, &api.config),
    };
    let held = parts.extensions.remove::<Held>();
    let shown = shown(&parts, held.as_ref(), via.as_ref())?;
    let requested = Requested {
        endpoint,
        method: method.unwrap_or(protocol_api::Method::Get),
        parameters: &parameters,
        query: &query,
    };
    let gate = Gate::pass(&api, shown, &requested).await?;
    let audited = requested.is_audited().then(|| requested.audited(&gate));
    check_filter(&query, endpoint)?;
    let (body, stream) = match body_use(method, endpoint, api.config.limits.body_bytes) {
        BodyUse::Unread => (WholeBody::default(), None),
        BodyUse::Whole { bytes_max } => (bodies.read(body, bytes_max).await?, None),
        BodyUse::Streamed => (WholeBody::default(), Some(body)),
    };
    let upgrade = upgrade(&mut parts).await;
    let mut ask = Ask {
        api,
        is_read: method == Some(protocol_api::Method::Get),
        parameters,
        query,
        body,
        stream: Mutex::new(stream),
        gate: Arc::new(gate),
        upgrade,
        held,
        via,
        stopped,
        read_index: AtomicU64::new(0),
    };
    let answered = Box::pin(route::serve(&mut ask, endpoint)).await;
    if let Some(audited) = audited {
        audited.write(status_of(&answered));
    }
    answered.or_else(|error| ask.not_found(error))
}

/// The request as the gate sees it.
///
/// # Errors
/// If its headers contradict each other.
fn shown(parts: &Parts, held: Option<&Held>, via: Option<&ViaNode>) -> Result<Shown, HttpError> {
    let sender = match (via, held) {
        (Some(via), _) => via.sender(),
        (None, Some(held)) => held.address().into(),
        (None, None) => {
            let address = parts.extensions.get().map(|ClientAddress(it)| *it);
            address.unwrap_or(NO_ADDRESS).into()
        }
    };
    Ok(Shown {
        credential: Credential::of(&parts.headers)?,
        sender,
    })
}

/// The use of a request's body: reads have none.
fn body_use(
    method: Option<protocol_api::Method>,
    endpoint: &Endpoint,
    bytes_max: usize,
) -> BodyUse {
    match method {
        Some(protocol_api::Method::Put | protocol_api::Method::Delete) => {
            route::body_use(endpoint, bytes_max)
        }
        _ => BodyUse::Unread,
    }
}

fn status_of(answered: &Answered) -> u16 {
    match answered {
        Ok(response) => response.status().as_u16(),
        Err(error) => error.status.as_u16(),
    }
}

/// Refuses `?filter=` where it would have no effect.
fn check_filter(query: &Query, endpoint: &Endpoint) -> Result<(), HttpError> {
    if query.text("filter").is_none() || endpoint.filterable {
        return Ok(());
    }
    Err(HttpError::bad_request(
        "?filter is for lists of jobs, allocations, evaluations, deployments and nodes; leave it \
         out here",
    ))
}

/// The method in the API's terms; `None` is one of no operation.
fn method(method: &Method) -> Option<protocol_api::Method> {
    match *method {
        Method::GET | Method::HEAD => Some(protocol_api::Method::Get),
        Method::PUT | Method::POST => Some(protocol_api::Method::Put),
        Method::DELETE => Some(protocol_api::Method::Delete),
        _ => None,
    }
}

/// The path's segments, split first and decoded then.
pub(super) fn segments(path: &str) -> Result<Vec<String>, HttpError> {
    // The path of a variable is all of it: `a/` is not `a`.
    if let Some(variable) = path.strip_prefix("/v1/var/") {
        let variable = decode(variable, Plus::IsPlus)?;
        return Ok(vec!["v1".to_owned(), "var".to_owned(), variable]);
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    path.split('/')
        .map(|segment| decode(segment, Plus::IsPlus))
        .collect()
}

async fn upgrade(parts: &mut Parts) -> Option<WebSocketUpgrade> {
    parts.headers.get(header::UPGRADE)?;
    WebSocketUpgrade::from_request_parts(parts, &()).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_before_it_is_decoded() -> Result<(), HttpError> {
        assert_eq!(
            segments("/v1/job/a%2Fb%20c/plan")?,
            ["v1", "job", "a/b c", "plan"]
        );
        assert_eq!(segments("/v1/job/a+b/")?, ["v1", "job", "a+b"]);
        assert!(segments("/")?.is_empty());
        assert_eq!(segments("/v1/var/a%2Fb/c/")?, ["v1", "var", "a/b/c/"]);
        assert_eq!(segments("/v1/var/")?, ["v1", "var", ""]);
        Ok(())
    }
}
