//! The client: an address, credentials, one kept connection.

use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::ANSWER_BYTES_MAX;
use crate::address::Address;
use crate::answer::{Answer, ByteStream};
use crate::connection::{self, RequestBody, WebSocket};
use crate::error::ClientError;
use crate::query::{self, Query};
use crate::tls::TlsFiles;

/// How much of a refusal's words is kept.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// A client of one server. Cheap to clone; clones share the kept connection.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    tls: Option<Arc<rustls::ClientConfig>>,
    server_name: Option<String>,
    token: Option<String>,
    namespace: Option<String>,
    region: Option<String>,
    /// An idle connection: taken for a request, put back after its answer was read.
    kept: Arc<Mutex<Option<SendRequest<RequestBody>>>>,
}

impl Client {
    /// A client of the server at `address`. `tls` is read only for `https://`.
    pub fn new(address: Address, tls: &TlsFiles) -> Result<Self, ClientError> {
        let config = match &address {
            Address::Https { .. } => Some(Arc::new(tls.load()?)),
            Address::Http { .. } | Address::Unix { .. } => None,
        };
        Ok(Self {
            address,
            tls: config,
            server_name: tls.server_name.clone(),
            token: None,
            namespace: None,
            region: None,
            kept: Arc::default(),
        })
    }

    /// The same client, sending `token` with every call.
    #[must_use]
    pub fn with_token(mut self, token: Option<String>) -> Self {
        self.token = token.filter(|token| !token.is_empty());
        self
    }

    /// The same client, asking in `namespace` wherever a call names none.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Option<String>) -> Self {
        self.namespace = namespace.filter(|namespace| !namespace.is_empty());
        self
    }

    /// The same client, asking for `region` wherever a call names none.
    #[must_use]
    pub fn with_region(mut self, region: Option<String>) -> Self {
        self.region = region.filter(|region| !region.is_empty());
        self
    }

    /// The server's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Percent-encodes one segment of a path: a job id may hold a slash.
    pub fn segment(text: &str) -> String {
        query::encode(text)
    }

    /// Reads `path`.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
    ) -> Result<Answer<T>, ClientError> {
        self.call(Method::GET, path, query, None).await
    }

    /// Writes `body` to `path`.
    pub async fn put<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
        body: &B,
    ) -> Result<Answer<T>, ClientError> {
        let bytes = serde_json::to_vec(body).map_err(|source| ClientError::Build {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        self.call(Method::PUT, path, query, Some(bytes.into()))
            .await
    }

    /// Writes `length` bytes to `path` as they come: a file that need not fit into memory. What is
    /// answered is left out.
    pub async fn put_stream(
        &self,
        path: &str,
        query: &Query,
        length: u64,
        body: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Result<Answer<()>, ClientError> {
        let body = BodyExt::boxed_unsync(StreamBody::new(body.map_ok(Frame::data)));
        let mut request = self.request(&Method::PUT, path, query, body)?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_LENGTH, length.into());
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        );
        // What comes once cannot be sent again where a kept connection turns out to be dead.
        let response = self.exchange(self.connect().await?, request).await?;
        let (parts, body) = accepted(response).await?.into_parts();
        self.collect(path, body).await?;
        Ok(Answer::new((), &parts.headers))
    }

    /// Writes raw bytes to `path`.
    pub async fn put_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
        body: Bytes,
    ) -> Result<Answer<T>, ClientError> {
        self.call(Method::PUT, path, query, Some(body)).await
    }

    /// Deletes `path`.
    pub async fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
    ) -> Result<Answer<T>, ClientError> {
        self.call(Method::DELETE, path, query, None).await
    }

    /// Reads `path` as text.
    pub async fn text(&self, path: &str, query: &Query) -> Result<Answer<String>, ClientError> {
        let response = self.send(Method::GET, path, query, None).await?;
        let (parts, body) = response.into_parts();
        let bytes = self.collect(path, body).await?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer::new(text, &parts.headers))
    }

    /// Reads `path` as it comes.
    pub async fn stream(&self, path: &str, query: &Query) -> Result<ByteStream, ClientError> {
        let response = self.send(Method::GET, path, query, None).await?;
        Ok(ByteStream::new(
            response.into_body(),
            self.address.to_string(),
        ))
    }

    /// Opens a WebSocket at `path`.
    pub async fn websocket(&self, path: &str, query: &Query) -> Result<WebSocket, ClientError> {
        let broken = |source| ClientError::broken(self.address.to_string(), source);
        let target = format!(
            "ws://{}{}",
            self.address.authority(),
            self.target(path, query)
        );
        let mut request = target
            .into_client_request()
            .map_err(|error| broken(error.into()))?;
        if let Some(token) = &self.token {
            let value = token.parse().map_err(|error| ClientError::Build {
                path: path.to_owned(),
                source: Box::<dyn std::error::Error + Send + Sync>::from(error),
            })?;
            request.headers_mut().insert("x-nomad-token", value);
        }
        let socket = connection::dial(
            &self.address,
            self.tls.as_ref(),
            self.server_name.as_deref(),
        )
        .await?;
        match tokio_tungstenite::client_async(request, socket).await {
            Ok((stream, _)) => Ok(stream),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                let code = response.status().as_u16();
                let body = response.into_body().unwrap_or_default();
                Err(ClientError::Status {
                    code,
                    message: refusal(code, &body),
                })
            }
            Err(error) => Err(broken(error.into())),
        }
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &Query,
        body: Option<Bytes>,
    ) -> Result<Answer<T>, ClientError> {
        let response = self.send(method, path, query, body).await?;
        let (parts, body) = response.into_parts();
        let bytes = self.collect(path, body).await?;
        // A write that answers nothing answers null.
        let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        let value = serde_json::from_slice(text).map_err(|source| ClientError::Decode {
            path: path.to_owned(),
            source,
        })?;
        Ok(Answer::new(value, &parts.headers))
    }

    /// Sends one request and answers what is no refusal. A kept connection that turns out to be
    /// dead is replaced once, before anything of the answer was read.
    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &Query,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, ClientError> {
        let kept = self.kept.lock().await.take().filter(SendRequest::is_ready);
        let reused = kept.is_some();
        let sender = match kept {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let request = self.request(&method, path, query, whole(body.clone()))?;
        let answer = self.exchange(sender, request).await;
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

    async fn connect(&self) -> Result<SendRequest<RequestBody>, ClientError> {
        let socket = connection::dial(
            &self.address,
            self.tls.as_ref(),
            self.server_name.as_deref(),
        )
        .await?;
        connection::http(socket)
            .await
            .map_err(|source| self.broken(source))
    }

    async fn exchange(
        &self,
        mut sender: SendRequest<RequestBody>,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, ClientError> {
        sender.ready().await.map_err(|source| self.broken(source))?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|source| self.broken(source))?;
        // Not ready again before the answer was read; `is_ready` is asked when it is taken.
        *self.kept.lock().await = Some(sender);
        Ok(response)
    }

    fn request(
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

    fn target(&self, path: &str, query: &Query) -> String {
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

    async fn collect(&self, path: &str, body: Incoming) -> Result<Bytes, ClientError> {
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

    fn broken(&self, source: hyper::Error) -> ClientError {
        ClientError::broken(self.address.to_string(), Box::new(source))
    }
}

fn whole(body: Option<Bytes>) -> RequestBody {
    Full::new(body.unwrap_or_default())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// The response, if it is no refusal.
async fn accepted(response: Response<Incoming>) -> Result<Response<Incoming>, ClientError> {
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
fn refusal(code: u16, body: &[u8]) -> String {
    let words = String::from_utf8_lossy(body).trim().to_owned();
    if words.is_empty() {
        format!("the server answered status {code}")
    } else {
        words
    }
}
