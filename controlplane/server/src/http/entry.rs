//! Where a request comes in: read, checked, routed, and answered whatever happens.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use controlplane_state::AclTokenKind;
use futures::FutureExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::watch;
use tokio::time::timeout;

use super::Api;
use super::ask::{Ask, Caller, Verb};
use super::error::{Answered, HttpError};
use super::listen::Held;
use super::origin;
use super::query::{Plus, Query, decode};
use super::{gzip, route};
use crate::gateway;

/// How long a client may take to send a body.
const BODY_MAX: Duration = Duration::from_secs(60);

/// What every request starts with.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) api: Api,
    pub(super) stopped: watch::Receiver<bool>,
    /// What the operator adds to every answer.
    headers: Arc<Vec<(HeaderName, HeaderValue)>>,
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
                _ => tracing::warn!(%name, %value, "http.response_headers: this is no header"),
            }
        }
        Self {
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
            if error.status.is_server_error() {
                tracing::warn!(request = %line, status = %error.status, error = %error.message);
            }
            error.into_response()
        }
        Err(_) => {
            tracing::error!(request = %line, "a request's handler panicked");
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

async fn answer(entry: Entry, request: Request) -> Answered {
    let Entry {
        api,
        stopped,
        headers: _,
    } = entry;
    let (mut parts, body) = request.into_parts();
    let uri = match OriginalUri::from_request_parts(&mut parts, &()).await {
        Ok(OriginalUri(uri)) => uri,
        Err(never) => match never {},
    };
    let query = Query::parse(uri.query().unwrap_or(""))?;
    let segments: Vec<String> = segments(uri.path())?;
    let path: Vec<&str> = segments.iter().map(String::as_str).collect();
    if let Some(region) = query.text("region")
        && region != api.config.region.as_str()
    {
        return Err(HttpError::not_found("No path to region"));
    }
    origin::check(&parts.headers, uri.authority(), &api.config)?;
    let caller = caller(&api, &parts.headers);
    if caller == Caller::Stranger && !route::is_open(&path, &query) {
        return Err(HttpError::permission_denied());
    }
    if query.text("filter").is_some() && !route::filters(&path) {
        return Err(HttpError::bad_request(
            "?filter is for lists of jobs, allocations, evaluations, deployments and nodes; leave \
             it out here",
        ));
    }
    let verb = match parts.method {
        Method::GET | Method::HEAD => Verb::Get,
        Method::PUT | Method::POST => Verb::Put,
        Method::DELETE => Verb::Delete,
        _ => Verb::Other,
    };
    let (body, stream) = match verb {
        Verb::Put if route::reads_body(&path) => {
            (whole(body, api.config.limits.body_bytes).await?, None)
        }
        Verb::Put => (Bytes::new(), Some(body)),
        _ => (Bytes::new(), None),
    };
    let upgrade = upgrade(&mut parts).await;
    let held = parts.extensions.remove::<Held>();
    let mut ask = Ask {
        api,
        verb,
        query,
        body,
        stream: Mutex::new(stream),
        caller,
        upgrade,
        held,
        stopped,
    };
    Box::pin(route::route(&mut ask, &path)).await
}

/// The path's segments, split first and decoded then.
pub(super) fn segments(path: &str) -> Result<Vec<String>, HttpError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    path.split('/')
        .map(|segment| decode(segment, Plus::IsPlus))
        .collect()
}

async fn whole(body: Body, bytes_max: usize) -> Result<Bytes, HttpError> {
    let whole = timeout(BODY_MAX, Limited::new(body, bytes_max).collect());
    let whole = whole.await.map_err(|_| {
        HttpError::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("no whole body within {BODY_MAX:?}"),
        )
    })?;
    match whole {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(HttpError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {bytes_max} bytes"),
        )),
        Err(error) => Err(HttpError::bad_request(format!(
            "cannot read the body: {error}"
        ))),
    }
}

async fn upgrade(parts: &mut Parts) -> Option<WebSocketUpgrade> {
    parts.headers.get(header::UPGRADE)?;
    WebSocketUpgrade::from_request_parts(parts, &()).await.ok()
}

/// Who asks, by `X-Nomad-Token` or `Authorization: Bearer`.
fn caller(api: &Api, headers: &HeaderMap) -> Caller {
    if !api.config.acl_enabled {
        return Caller::Anyone;
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = || text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    match text("x-nomad-token")
        .filter(|token| !token.is_empty())
        .or_else(bearer)
    {
        Some(secret) => token_holder(api, secret),
        None => Caller::Stranger,
    }
}

/// Whose secret this is.
pub(super) fn token_holder(api: &Api, secret: &str) -> Caller {
    // Digests are compared, so that the time says nothing about how much of a secret is right.
    let given = gateway::digest(secret.trim().as_bytes());
    let snapshot = api.cluster.snapshot();
    let known = snapshot
        .acl_tokens()
        .find(|token| token.secret_hash == given && token.kind == AclTokenKind::Management);
    known.map_or(Caller::Stranger, |token| {
        Caller::Manager(token.accessor_id.clone())
    })
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
        Ok(())
    }
}
