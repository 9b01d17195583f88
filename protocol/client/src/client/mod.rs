//! The client: an address, credentials, one kept connection. How requests are sent: `sending`.

mod sending;
mod token;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http_body_util::{BodyExt, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use protocol_api::Operation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::address::Address;
use crate::answer::{Answer, ByteStream};
use crate::connection::{self, WebSocket};
use crate::error::ClientError;
use crate::http::HttpConnection;
use crate::patience::{self, PATIENCE};
use crate::query::{self, Query};
use crate::tls::TlsFiles;
use sending::{accepted, refusal, whole};
use token::Token;

/// A client of one server. Cheap to clone; clones share the kept connection.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    tls: Option<Arc<rustls::ClientConfig>>,
    server_name: Option<String>,
    token: Option<Token>,
    namespace: Option<String>,
    region: Option<String>,
    patience: Duration,
    /// An idle connection: taken for a request, put back after its answer was read.
    kept: Arc<Mutex<Option<HttpConnection>>>,
}

/// The method by which this client asks for an operation.
fn method_of<O: Operation>(_: &O) -> Method {
    match O::ENDPOINT.methods.first() {
        Some(protocol_api::Method::Put) => Method::PUT,
        Some(protocol_api::Method::Delete) => Method::DELETE,
        Some(protocol_api::Method::Get) | None => Method::GET,
    }
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
            patience: PATIENCE,
            kept: Arc::default(),
        })
    }

    /// The same client, sending `token` with every call.
    #[must_use]
    pub fn with_token(mut self, token: Option<String>) -> Self {
        self.token = Token::of(token);
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

    /// The same client, waiting this long for answers; 60 s where nothing is said. What a question
    /// asks the server to wait comes on top. Streams that are followed, and those that are sent,
    /// have no limit.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
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

    /// Carries out an operation that takes no body.
    ///
    /// # Errors
    /// Where the server is not reached, refuses, or answers something else.
    pub async fn call<O: Operation<Body = ()>>(
        &self,
        operation: &O,
        query: &Query,
    ) -> Result<Answer<O::Answer>, ClientError> {
        let method = method_of(operation);
        self.exchange_json(method, &operation.path(), query, None)
            .await
    }

    /// As [`Self::call`]; the answer as it is, with keys that this release does not know.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn call_json<O: Operation<Body = ()>>(
        &self,
        operation: &O,
        query: &Query,
    ) -> Result<Answer<serde_json::Value>, ClientError> {
        let method = method_of(operation);
        self.exchange_json(method, &operation.path(), query, None)
            .await
    }

    /// Carries out an operation with a body.
    ///
    /// # Errors
    /// As [`Self::call`]; where the body has no form in JSON.
    pub async fn call_with<O: Operation>(
        &self,
        operation: &O,
        query: &Query,
        body: &O::Body,
    ) -> Result<Answer<O::Answer>, ClientError> {
        let path = operation.path();
        let bytes = serde_json::to_vec(body).map_err(|source| ClientError::Build {
            path: path.clone(),
            source: Box::new(source),
        })?;
        self.exchange_json(method_of(operation), &path, query, Some(bytes.into()))
            .await
    }

    /// Reads `path`.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
    ) -> Result<Answer<T>, ClientError> {
        self.exchange_json(Method::GET, path, query, None).await
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
        self.exchange_json(Method::PUT, path, query, Some(bytes.into()))
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
        self.exchange_json(Method::PUT, path, query, Some(body))
            .await
    }

    /// Deletes `path`.
    pub async fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
    ) -> Result<Answer<T>, ClientError> {
        self.exchange_json(Method::DELETE, path, query, None).await
    }

    /// Reads `path` as text.
    pub async fn text(&self, path: &str, query: &Query) -> Result<Answer<String>, ClientError> {
        let (bytes, headers) = self.document(Method::GET, path, query, None).await?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer::new(text, &headers))
    }

    /// Reads `path` as it comes.
    pub async fn stream(&self, path: &str, query: &Query) -> Result<ByteStream, ClientError> {
        let silence_max = patience::of_stream(self.patience, query);
        let sent = self.send(Method::GET, path, query, None);
        let response = patience::within(silence_max, &self.address, sent).await?;
        Ok(ByteStream::new(
            response.into_body(),
            self.address.to_string(),
            silence_max,
        ))
    }

    /// Sends a request that no operation describes, and reads its answer as it comes.
    ///
    /// # Errors
    /// As [`Self::stream`]; where `method` or a header cannot be sent.
    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        query: &Query,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<ByteStream, ClientError> {
        let cannot = |source: Box<dyn std::error::Error + Send + Sync>| ClientError::Build {
            path: path.to_owned(),
            source,
        };
        let method = Method::from_bytes(method.as_bytes()).map_err(|it| cannot(it.into()))?;
        let mut request = self.request(&method, path, query, whole(Some(body)))?;
        for (name, value) in headers {
            let name = HeaderName::try_from(name).map_err(|it| cannot(it.into()))?;
            let value = HeaderValue::try_from(value).map_err(|it| cannot(it.into()))?;
            request.headers_mut().insert(name, value);
        }
        let sent = async {
            let connection = self.connect().await?;
            accepted(self.exchange(connection, request).await?).await
        };
        let begins = patience::of_document(self.patience, query);
        let response = patience::within(Some(begins), &self.address, sent).await?;
        Ok(ByteStream::new(
            response.into_body(),
            self.address.to_string(),
            patience::of_stream(self.patience, query),
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
            let value = HeaderValue::try_from(token).map_err(|error| ClientError::Build {
                path: path.to_owned(),
                source: Box::new(error),
            })?;
            request.headers_mut().insert("x-nomad-token", value);
        }
        let socket = connection::dial(
            &self.address,
            self.tls.as_ref(),
            self.server_name.as_deref(),
        )
        .await?;
        let opening = async {
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
        };
        patience::within(Some(self.patience), &self.address, opening).await
    }
}
