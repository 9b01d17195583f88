//! The only connections that a server opens to strangers: those to the providers of auth methods.
//! Management alone names their addresses.
//!
//! | limit | value | at the limit |
//! |---|---|---|
//! | schemes | `https`; `http` to loopback | refused, also when the address is stored |
//! | redirects | none | the status is an error |
//! | time of a whole login | 10 s | [`FetchError::Deadline`] |
//! | answer | 256 KiB | [`FetchError::TooLarge`], before or while it is read |
//! | at a time | 8 | further ones wait, within their deadline |

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use protocol_access::method::{OutgoingUrl, UrlError};
use protocol_error_chain::chain;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// How long all requests of one login may take together.
pub const LOGIN_TIME_MAX: Duration = Duration::from_secs(10);
/// The largest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Requests at a time.
const AT_A_TIME: usize = 8;

/// Why nothing usable was fetched.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FetchError {
    /// The address is refused.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// `localhost` is another host here.
    #[error("http is for loopback, and {0} is another host's address")]
    NotLoopback(String),
    /// No answer in time.
    #[error("no complete answer within {0:?}")]
    Deadline(Duration),
    /// No connection.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The certificate of the provider or of its authority is refused.
    #[error("TLS: {0}")]
    Tls(String),
    /// The connection broke, or carried no HTTP.
    #[error("broken answer: {0}")]
    Broken(String),
    /// The answer is too large.
    #[error("the answer has more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    /// The provider points elsewhere.
    #[error("answered with a redirect (status {0}), which is not followed")]
    Redirect(u16),
    /// Another status.
    #[error("answered with status {0}")]
    Status(u16),
    /// The document is not usable.
    #[error("{0}")]
    Document(String),
}

/// When all requests of a login are over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    span: Duration,
}

impl Deadline {
    /// `span` from now on.
    pub(super) fn after(span: Duration) -> Self {
        let at = Instant::now() + span;
        Self { at, span }
    }

    /// Waits for `work`, at most until the deadline.
    ///
    /// # Errors
    /// [`FetchError::Deadline`].
    pub(super) async fn cut<T>(self, work: impl Future<Output = T>) -> Result<T, FetchError> {
        let done = timeout_at(self.at, work).await;
        done.map_err(|_| FetchError::Deadline(self.span))
    }
}

/// An answer that was read to its end.
#[derive(Clone)]
pub(super) struct Fetched {
    /// The status: 2xx, 4xx or 5xx.
    pub(super) status: u16,
    /// The body.
    pub(super) body: Bytes,
}

/// Shows no body: that of an exchange holds tokens.
impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched")
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A request.
#[derive(Clone, Copy)]
pub(super) struct Fetch<'a> {
    /// The address.
    pub(super) url: &'a str,
    /// Authorities, PEM; none = those of the host.
    pub(super) authorities: &'a [String],
    /// A form to send; `None` = a GET.
    pub(super) form: Option<&'a str>,
    /// The value of `Authorization`.
    pub(super) authorization: Option<&'a str>,
}

/// Shows neither form nor authorization.
impl fmt::Debug for Fetch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetch")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// See the top of this file. Clones share the limit.
#[derive(Clone, Debug)]
pub(super) struct Fetcher {
    places: Arc<Semaphore>,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }
}

impl Fetcher {
    /// Fetches a document: an answer with status 200.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub(super) async fn document(
        &self,
        fetch: Fetch<'_>,
        deadline: Deadline,
    ) -> Result<Bytes, FetchError> {
        let fetched = self.fetch(fetch, deadline).await?;
        match fetched.status {
            200 => Ok(fetched.body),
            status => Err(FetchError::Status(status)),
        }
    }

    /// Sends a request and reads the whole answer, whatever its status is.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub(super) async fn fetch(
        &self,
        fetch: Fetch<'_>,
        deadline: Deadline,
    ) -> Result<Fetched, FetchError> {
        let url = OutgoingUrl::parse(fetch.url)?;
        let within = async {
            // The semaphore is never closed.
            let _place = self.places.acquire().await;
            exchange(&url, fetch).await
        };
        deadline.cut(within).await?
    }
}

async fn exchange(url: &OutgoingUrl, fetch: Fetch<'_>) -> Result<Fetched, FetchError> {
    let stream = connect(url).await?;
    if url.is_https {
        let tls = secured(url, fetch.authorities, stream).await?;
        send(url, fetch, tls).await
    } else {
        send(url, fetch, stream).await
    }
}

async fn connect(url: &OutgoingUrl) -> Result<TcpStream, FetchError> {
    let broken = |error: std::io::Error| FetchError::Connect(error.to_string());
    let found = tokio::net::lookup_host((url.host.as_str(), url.port)).await;
    let found: Vec<_> = found.map_err(broken)?.collect();
    if !url.is_https
        && let Some(other) = found.iter().find(|address| !address.ip().is_loopback())
    {
        return Err(FetchError::NotLoopback(other.ip().to_string()));
    }
    TcpStream::connect(found.as_slice()).await.map_err(broken)
}

async fn secured(
    url: &OutgoingUrl,
    authorities: &[String],
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, FetchError> {
    let authorities = authorities.to_vec();
    // The host's certificates are files.
    let roots = tokio::task::spawn_blocking(move || roots(&authorities)).await;
    let roots = roots.map_err(|error| FetchError::Tls(error.to_string()))??;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| FetchError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(url.host.clone());
    let name = name.map_err(|error| FetchError::Tls(error.to_string()))?;
    let secured = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await;
    secured.map_err(|error| FetchError::Tls(chain(&error)))
}

/// The configured authorities, or those of the host.
fn roots(authorities: &[String]) -> Result<RootCertStore, FetchError> {
    let mut roots = RootCertStore::empty();
    if authorities.iter().all(String::is_empty) {
        // Single files that cannot be read are no reason to trust none.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        for text in authorities {
            for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
                let added = certificate.map_err(|error| error.to_string());
                let added = added.and_then(|certificate| {
                    roots.add(certificate).map_err(|error| error.to_string())
                });
                added.map_err(|why| FetchError::Tls(format!("the configured authority: {why}")))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(FetchError::Tls(
            "no authority of certificates is known".to_owned(),
        ));
    }
    Ok(roots)
}

async fn send<S>(url: &OutgoingUrl, fetch: Fetch<'_>, stream: S) -> Result<Fetched, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| FetchError::Broken(chain(&error));
    let request = request(url, fetch)?;
    let handshake = hyper::client::conn::http1::Builder::new()
        .max_headers(100)
        .max_buf_size(64 * 1024)
        .handshake(TokioIo::new(stream));
    let (mut requests, connection) = handshake.await.map_err(broken)?;
    // The task ends with the connection, which ends with this request, answered or not.
    let driver = tokio::spawn(connection);
    let _ends = AbortOnDrop(driver.abort_handle());
    let answer = requests.send_request(request).await.map_err(broken)?;
    let status = answer.status();
    if status.is_redirection() {
        return Err(FetchError::Redirect(status.as_u16()));
    }
    Ok(Fetched {
        status: status.as_u16(),
        body: whole(answer).await?,
    })
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn request(url: &OutgoingUrl, fetch: Fetch<'_>) -> Result<Request<Full<Bytes>>, FetchError> {
    let mut request = match fetch.form {
        None => Request::get(&url.path),
        Some(_) => {
            Request::post(&url.path).header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        }
    }
    .header(HOST, &url.authority)
    .header(ACCEPT, "application/json")
    .header(USER_AGENT, "drover");
    if let Some(authorization) = fetch.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let body = Bytes::from(fetch.form.unwrap_or_default().to_owned());
    request
        .body(Full::new(body))
        .map_err(|error| FetchError::Broken(error.to_string()))
}

async fn whole(answer: Response<Incoming>) -> Result<Bytes, FetchError> {
    let claimed = answer.headers().get(CONTENT_LENGTH);
    let claimed = claimed.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if claimed.is_some_and(|bytes| bytes > ANSWER_BYTES_MAX as u64) {
        return Err(FetchError::TooLarge);
    }
    let mut body = answer.into_body();
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| FetchError::Broken(chain(&error)))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if read.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(FetchError::TooLarge);
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}
