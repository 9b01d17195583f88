//! A client of the HTTP API: requests and answers as they are, and no TCP between.

use std::net::{IpAddr, Ipv4Addr};

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use controlplane_server::http::ClientAddress;
use serde_json::Value;
use tower::ServiceExt;

use crate::server::Door;

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

/// A client, as servers see it.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// The secret of its token.
    pub(super) secret: Option<String>,
    /// The address of its connection.
    pub(super) address: IpAddr,
}

impl Client {
    /// Operators, with the secret of their token.
    pub(super) fn operator(secret: Option<String>) -> Self {
        Self {
            secret,
            address: Ipv4Addr::new(10, 0, 1, 1).into(),
        }
    }

    /// A client that shows no token, on a connection that no other one uses.
    pub(super) fn anonymous() -> Self {
        Self {
            secret: None,
            address: Ipv4Addr::new(10, 0, 1, 2).into(),
        }
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(
        &self,
        door: &Door,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Refused> {
        let strange = |why: String| Refused {
            status: StatusCode::BAD_REQUEST,
            why,
        };
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = Request::builder().method(method).uri(path);
        request = request.extension(ClientAddress(self.address));
        if let Some(secret) = &self.secret {
            request = request.header("x-nomad-token", secret);
        }
        let request = request.body(body);
        let request = request.map_err(|error| strange(error.to_string()))?;
        let response = match door.http.clone().oneshot(request).await {
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
}
