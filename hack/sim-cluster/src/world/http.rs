//! A client of the HTTP API: requests and answers as they are, and no TCP between.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt;

/// The most that an answer may have.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    /// `X-Nomad-Index`.
    pub(super) index: u64,
    pub(super) body: Value,
}

/// What was answered instead; an answer that cannot be read counts as a request that could not.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) why: String,
}

/// Asks, and waits for the answer.
pub(super) async fn ask(
    http: Router,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Answer, Refused> {
    let strange = |why: String| Refused {
        status: StatusCode::BAD_REQUEST,
        why,
    };
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let request = Request::builder().method(method).uri(path).body(body);
    let request = request.map_err(|error| strange(error.to_string()))?;
    let response = match http.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, ANSWER_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| strange(error.to_string()))?;
    if !parts.status.is_success() {
        return Err(Refused {
            status: parts.status,
            why: String::from_utf8_lossy(&bytes).into_owned(),
        });
    }
    let index = parts.headers.get("x-nomad-index");
    let index = index.and_then(|index| index.to_str().ok()?.parse().ok());
    let index = index.ok_or_else(|| strange("an answer without an index".to_owned()))?;
    let body = serde_json::from_slice(&bytes);
    let body = body.map_err(|error| strange(format!("an answer that is no JSON: {error}")))?;
    Ok(Answer { index, body })
}
