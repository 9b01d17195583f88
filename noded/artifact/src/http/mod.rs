//! HTTP downloads: one request, its redirects, its body.

mod addresses;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::http::{Response, StatusCode, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body};

use crate::COPY_BYTES;
use crate::request::FetchRequest;
use crate::source::{Url, masked};
use addresses::JudgingResolver;

/// Redirects of one download; as many as Go's client follows.
const REDIRECTS_MAX: u32 = 10;
/// A host that takes no connection within that time is tried no longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Headers that are sent to other hosts, too: they hold no credentials.
const HARMLESS_HEADERS: [&str; 2] = ["accept", "user-agent"];

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The server answered with an error.
    #[error("{url}: bad response code: {status}")]
    Status {
        /// Without secrets.
        url: String,
        /// Its code and its words.
        status: StatusCode,
    },
    /// No answer, or it broke off.
    #[error("{url}")]
    Exchange {
        /// Without secrets.
        url: String,
        /// Why.
        #[source]
        source: ureq::Error,
    },
    /// The body ended early.
    #[error("{url}: after {bytes} bytes")]
    Body {
        /// Without secrets.
        url: String,
        /// How many came.
        bytes: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The download took too long.
    #[error(
        "{url}: not complete after {} s (artifact {{ http_read_timeout }} of the node)",
        .limit.as_secs()
    )]
    Timeout {
        /// Without secrets.
        url: String,
        /// The node's limit.
        limit: Duration,
    },
    /// The body is too long.
    #[error("{url}: larger than {max} bytes (artifact {{ http_max_size }} of the node)")]
    TooLarge {
        /// Without secrets.
        url: String,
        /// The limit.
        max: u64,
    },
    /// A redirect is not followed.
    #[error("{url}: redirect to {to}: {problem}")]
    Redirect {
        /// Without secrets.
        url: String,
        /// Without secrets.
        to: String,
        /// Why not.
        problem: &'static str,
    },
    /// A header of the job cannot be sent.
    #[error("header {name:?} cannot be sent: {problem}")]
    Header {
        /// Its name.
        name: String,
        /// Why.
        problem: String,
    },
    /// The file cannot be written.
    #[error("writing the download")]
    Write(#[source] io::Error),
}

impl HttpError {
    pub(crate) fn is_recoverable(&self) -> bool {
        !matches!(self, Self::Header { .. } | Self::TooLarge { .. })
    }
}

/// A client for one artifact.
pub(crate) struct Client<'a> {
    agent: Agent,
    request: &'a FetchRequest,
    deadline: Instant,
}

impl<'a> Client<'a> {
    /// `named` are the URLs that the job names: only their hosts may be loopback or link-local.
    pub(crate) fn new(request: &'a FetchRequest, named: &[&Url]) -> Self {
        let roots = if request.insecure {
            Vec::new()
        } else {
            // The handshake names a certificate that could not be read.
            let found = rustls_native_certs::load_native_certs().certs;
            let found = found.iter();
            found
                .map(|it| Certificate::from_der(it.as_ref()).to_owned())
                .collect()
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::from(roots))
            .disable_verification(request.insecure)
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("drover/", env!("CARGO_PKG_VERSION")))
            .accept("*/*")
            .build();
        let resolver = JudgingResolver::new(named.iter().map(|url| url.host()));
        Self {
            agent: Agent::with_parts(config, DefaultConnector::default(), resolver),
            request,
            deadline: Instant::now() + request.limits.http_timeout,
        }
    }

    /// Downloads a URL into `into`; returns the number of bytes. `on_bytes` gets the bytes so far
    /// and the total, where the server says so.
    pub(crate) fn download(
        &self,
        url: &Url,
        into: &mut dyn Write,
        on_bytes: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<u64, HttpError> {
        let (url, response) = self.follow(url)?;
        let shown = masked(&url.to_string());
        let total = response.body().content_length();
        let max = self.request.limits.http_bytes_max.unwrap_or(u64::MAX);
        let too_large = || HttpError::TooLarge {
            url: shown.clone(),
            max,
        };
        if total.is_some_and(|total| total > max) {
            return Err(too_large());
        }
        let body = response.into_body().into_with_config().limit(u64::MAX);
        let mut body = body.reader();
        let mut buffer = vec![0; COPY_BYTES];
        let mut bytes = 0_u64;
        on_bytes(0, total);
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => return Ok(bytes),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(self.broken(shown, bytes, source)),
            };
            bytes += count as u64;
            if bytes > max {
                return Err(too_large());
            }
            into.write_all(&buffer[..count]).map_err(HttpError::Write)?;
            on_bytes(bytes, total);
        }
    }

    fn broken(&self, url: String, bytes: u64, source: io::Error) -> HttpError {
        if Instant::now() >= self.deadline {
            let limit = self.request.limits.http_timeout;
            return HttpError::Timeout { url, limit };
        }
        HttpError::Body { url, bytes, source }
    }

    /// The first answer that is no redirect, and where it came from.
    fn follow(&self, first: &Url) -> Result<(Url, Response<Body>), HttpError> {
        let mut url = first.clone();
        for _ in 0..=REDIRECTS_MAX {
            let response = self.exchange(first, &url)?;
            let status = response.status();
            let shown = masked(&url.to_string());
            // The others have no whole body.
            if status == StatusCode::OK {
                return Ok((url, response));
            }
            let location = response.headers().get(header::LOCATION);
            let location = location.filter(|_| status.is_redirection());
            let Some(location) = location.and_then(|it| it.to_str().ok()) else {
                return Err(HttpError::Status { url: shown, status });
            };
            let refused = |problem| HttpError::Redirect {
                url: shown.clone(),
                to: masked(location),
                problem,
            };
            let next = url.join(location).map_err(refused)?;
            match (url.scheme.as_str(), next.scheme.as_str()) {
                ("https", "https") | ("http", "http" | "https") => url = next,
                ("https", "http") => return Err(refused("it leaves https for http")),
                _ => return Err(refused("it is neither http nor https")),
            }
        }
        Err(HttpError::Redirect {
            url: masked(&first.to_string()),
            to: masked(&url.to_string()),
            problem: "more than 10 redirects",
        })
    }

    fn exchange(&self, first: &Url, url: &Url) -> Result<Response<Body>, HttpError> {
        let shown = masked(&url.to_string());
        let left = self.deadline.saturating_duration_since(Instant::now());
        let limit = self.request.limits.http_timeout;
        if left.is_zero() {
            return Err(HttpError::Timeout { url: shown, limit });
        }
        let mut request = self.agent.get(url.without_credentials().to_string());
        for (name, value) in headers_for(&self.request.headers, first.same_origin(url)) {
            let sendable = ureq::http::HeaderName::try_from(name)
                .map_err(|error| error.to_string())
                .and_then(|name| {
                    let value = ureq::http::HeaderValue::try_from(value);
                    Ok((name, value.map_err(|error| error.to_string())?))
                });
            let (header, value) = sendable.map_err(|problem| HttpError::Header {
                name: name.to_owned(),
                problem,
            })?;
            request = request.header(header, value);
        }
        if let Some((user, password)) = url.credentials() {
            let basic = STANDARD.encode(format!("{user}:{password}"));
            request = request.header(header::AUTHORIZATION, format!("Basic {basic}"));
        }
        let request = request.config().timeout_global(Some(left)).build();
        request.call().map_err(|source| match source {
            ureq::Error::Timeout(ureq::Timeout::Global) => HttpError::Timeout { url: shown, limit },
            source => HttpError::Exchange { url: shown, source },
        })
    }
}

/// The headers that a host gets: all of the job's, or those without credentials.
fn headers_for(
    headers: &BTreeMap<String, String>,
    is_first_origin: bool,
) -> impl Iterator<Item = (&str, &str)> {
    headers
        .iter()
        .filter(move |(name, _)| {
            is_first_origin || HARMLESS_HEADERS.contains(&name.to_ascii_lowercase().as_str())
        })
        .map(|(name, value)| (name.as_str(), value.as_str()))
}
