//! How a request is sent and its answer read, over the kept connection or a new one.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response};
use serde::de::DeserializeOwned;

use super::Client;
use crate::ANSWER_BYTES_MAX;
use crate::answer::Answer;
use crate::connection;
use crate::error::ClientError;
use crate::http::{HttpConnection, RequestBody};
use crate::patience;
use crate::query::Query;

/// How much of a refusal's words is kept.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

impl Client {
    pub(super) async fn exchange_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &Query,
        body: Option<Bytes>,
    ) -> Result<Answer<T>, ClientError> {
        let (bytes, headers) = self.document(method, path, query, body).await?;
        // A write that answers nothing answers null.
        let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        let value = serde_json::from_slice(text).map_err(|source| ClientError::Decode {
            path: path.to_owned(),
            source,
        })?;
        Ok(Answer::new(value, &headers))
    }

    /// Sends one request and reads the whole answer, in time.
    pub(super) async fn document(
        &self,
        method: Method,
        path: &str,
        query: &Query,
        body: Option<Bytes>,
    ) -> Result<(Bytes, HeaderMap), ClientError> {
        let limit = patience::of_document(self.patience, query);
        patience::within(Some(limit), &self.address, async {
            let response = self.send(method, path, query, body).await?;
            let (parts, body) = response.into_parts();
            Ok((self.collect(path, body).await?, parts.headers))
        })
        .await
    }

    /// Sends one request and answers what is no refusal. A kept connection that turns out to be
    /// dead is replaced once, before anything of the answer was read.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        query: &Query,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, ClientError> {
        let kept = self
            .kept
            .lock()
            .await
            .take()
            .filter(HttpConnection::is_ready);
        let reused = kept.is_some();
        let connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let request = self.request(&method, path, query, whole(body.clone()))?;
        let answer = self.exchange(connection, request).await;
        let response = match answer {
            // Only a read is repeated: a write may have been carried out.
            Err(_) if reused && method == Method::GET => {
                let request = self.request(&method, path, query, whole(body))?;
                self.exchange(self.connect().await?, request).await?
            }
            other => other?,
        };
        accepted(response).await
    }

    pub(super) async fn connect(&self) -> Result<HttpConnection, ClientError> {
        let socket = connection::dial(
            &self.address,
            self.tls.as_ref(),
            self.server_name.as_deref(),
        )
        .await?;
        let started = HttpConnection::start(socket).await;
        started.map_err(|source| self.broken(source.into()))
    }

    pub(super) async fn exchange(
        &self,
        mut connection: HttpConnection,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, ClientError> {
        let sent = connection.send(request).await;
        let response = sent.map_err(|source| self.broken(source))?;
        // Not ready again before the answer was read; `is_ready` is asked when it is taken.
        *self.kept.lock().await = Some(connection);
        Ok(response)
    }

    pub(super) fn request(
        &self,
        method: &Method,
        path: &str,
        query: &Query,
        body: RequestBody,
    ) -> Result<Request<RequestBody>, ClientError> {
        let mut builder = Request::builder()
            .method(method.clone())
            .uri(self.target(path, query))
            .header("host", self.address.authority())
            .header("content-type", "application/json");
        if let Some(token) = &self.token {
            builder = builder.header("x-nomad-token", token);
        }
        builder.body(body).map_err(|source| ClientError::Build {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    pub(super) fn target(&self, path: &str, query: &Query) -> String {
        let mut query = query.clone();
        for (key, value) in [("namespace", &self.namespace), ("region", &self.region)] {
            if let Some(value) = value
                && !query.has(key)
            {
                query = query.with(key, value);
            }
        }
        format!("{path}{}", query.encode())
    }

    pub(super) async fn collect(&self, path: &str, body: Incoming) -> Result<Bytes, ClientError> {
        match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                Err(ClientError::TooLarge {
                    path: path.to_owned(),
                    bytes_max: ANSWER_BYTES_MAX,
                })
            }
            Err(source) => Err(ClientError::broken(self.address.to_string(), source)),
        }
    }

    fn broken(&self, source: Box<dyn std::error::Error + Send + Sync>) -> ClientError {
        ClientError::broken(self.address.to_string(), source)
    }
}

pub(super) fn whole(body: Option<Bytes>) -> RequestBody {
    Full::new(body.unwrap_or_default())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// The response, if it is no refusal.
pub(super) async fn accepted(
    response: Response<Incoming>,
) -> Result<Response<Incoming>, ClientError> {
    let code = response.status().as_u16();
    if response.status().is_success() || response.status().is_informational() {
        return Ok(response);
    }
    let words = Limited::new(response.into_body(), REFUSAL_BYTES_MAX)
        .collect()
        .await;
    let bytes = words.map(|words| words.to_bytes()).unwrap_or_default();
    Err(ClientError::Status {
        code,
        message: refusal(code, &bytes),
    })
}

/// A refusal's words, or the status where there are none.
pub(super) fn refusal(code: u16, body: &[u8]) -> String {
    let words = String::from_utf8_lossy(body).trim().to_owned();
    if words.is_empty() {
        format!("the server answered status {code}")
    } else {
        words
    }
}
