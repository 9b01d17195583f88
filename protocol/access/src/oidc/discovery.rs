//! The discovery document of a provider (OpenID Connect Discovery 1.0).

use serde::Deserialize;

use crate::method::{OutgoingUrl, UrlError};

/// The largest document, in bytes.
pub const DISCOVERY_BYTES_MAX: usize = 256 * 1024;
/// The path of the document below an issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The members of a discovery document that are used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discovery {
    /// The issuer, as its tokens name it.
    pub issuer: String,
    /// Where the key set is.
    pub jwks_uri: String,
    /// Where users log in; empty where the provider only signs tokens.
    pub authorization_endpoint: String,
    /// Where codes are exchanged; empty as above.
    pub token_endpoint: String,
    /// Where claims about a user are; empty where there is none.
    pub userinfo_endpoint: String,
    /// Whether the provider always sends its issuer back with the code (RFC 9207).
    pub sends_issuer: bool,
}

/// Why a document is not used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// It is too long.
    #[error("the discovery document has {0} bytes: at most {DISCOVERY_BYTES_MAX} are read")]
    TooLong(usize),
    /// It is not JSON of the right shape.
    #[error("not a discovery document: {0}")]
    Json(String),
    /// It describes another issuer: anybody could host such a document.
    #[error("the discovery document is for the issuer {found:?}, not for {wanted:?}")]
    Issuer {
        /// The issuer of the document.
        found: String,
        /// The configured one.
        wanted: String,
    },
    /// An address in it is refused.
    #[error("{field} of the discovery document: {source}")]
    Url {
        /// The member.
        field: &'static str,
        /// The reason.
        source: UrlError,
    },
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
    #[serde(default)]
    authorization_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint: Option<String>,
    #[serde(default)]
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Option<bool>,
}

impl Discovery {
    /// The address of the document of `issuer`.
    pub fn url_of(issuer: &str) -> String {
        match issuer.ends_with(WELL_KNOWN) {
            true => issuer.to_owned(),
            false => format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/')),
        }
    }

    /// Reads a document that was fetched for `issuer` (a trailing slash is not compared).
    ///
    /// # Errors
    /// See [`DiscoveryError`]. Every address that a server would connect to is judged like a
    /// configured one.
    pub fn parse(bytes: &[u8], issuer: &str) -> Result<Self, DiscoveryError> {
        if bytes.len() > DISCOVERY_BYTES_MAX {
            return Err(DiscoveryError::TooLong(bytes.len()));
        }
        let read: Document = serde_json::from_slice(bytes)
            .map_err(|error| DiscoveryError::Json(error.to_string()))?;
        let bare = |text: &str| text.trim_end_matches('/').to_owned();
        let wanted = issuer.strip_suffix(WELL_KNOWN).unwrap_or(issuer);
        if bare(&read.issuer) != bare(wanted) {
            return Err(DiscoveryError::Issuer {
                found: read.issuer.chars().take(256).collect(),
                wanted: wanted.to_owned(),
            });
        }
        let document = Self {
            issuer: read.issuer,
            jwks_uri: read.jwks_uri,
            authorization_endpoint: read.authorization_endpoint.unwrap_or_default(),
            token_endpoint: read.token_endpoint.unwrap_or_default(),
            userinfo_endpoint: read.userinfo_endpoint.unwrap_or_default(),
            sends_issuer: read
                .authorization_response_iss_parameter_supported
                .unwrap_or(false),
        };
        OutgoingUrl::parse(&document.jwks_uri).map_err(|source| DiscoveryError::Url {
            field: "jwks_uri",
            source,
        })?;
        let optional = [
            ("authorization_endpoint", &document.authorization_endpoint),
            ("token_endpoint", &document.token_endpoint),
            ("userinfo_endpoint", &document.userinfo_endpoint),
        ];
        for (field, url) in optional.into_iter().filter(|(_, url)| !url.is_empty()) {
            OutgoingUrl::parse(url).map_err(|source| DiscoveryError::Url { field, source })?;
        }
        Ok(document)
    }
}
