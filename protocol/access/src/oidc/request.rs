//! Requests to a provider: the address that a user opens, and the exchange of a code.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

/// The scope of every login.
const OPENID: &str = "openid";

/// The address that a user opens.
#[derive(Clone, Copy)]
pub struct AuthUrl<'a> {
    /// `authorization_endpoint` of the provider.
    pub endpoint: &'a str,
    /// `OIDCClientID`.
    pub client_id: &'a str,
    /// Scopes beside `openid`.
    pub scopes: &'a [String],
    /// The address that the user is sent back to.
    pub redirect_uri: &'a str,
    /// The sealed state.
    pub state: &'a str,
    /// The client's nonce, which the id token repeats.
    pub nonce: &'a str,
    /// The verifier of PKCE; its digest is sent.
    pub verifier: Option<&'a str>,
}

/// Shows neither nonce nor verifier.
impl std::fmt::Debug for AuthUrl<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthUrl")
            .field("endpoint", &self.endpoint)
            .field("client_id", &self.client_id)
            .field("redirect_uri", &self.redirect_uri)
            .finish_non_exhaustive()
    }
}

impl AuthUrl<'_> {
    /// The whole address.
    pub fn build(&self) -> String {
        let others = self.scopes.iter().map(String::as_str);
        let others = others.filter(|scope| *scope != OPENID && !scope.is_empty());
        let scopes: Vec<&str> = std::iter::once(OPENID).chain(others).collect();
        let scope = scopes.join(" ");
        let mut fields = vec![
            ("client_id", self.client_id),
            ("nonce", self.nonce),
            ("redirect_uri", self.redirect_uri),
            ("response_type", "code"),
            ("scope", &scope),
            ("state", self.state),
        ];
        let challenge = self.verifier.map(challenge);
        if let Some(challenge) = &challenge {
            fields.push(("code_challenge", challenge));
            fields.push(("code_challenge_method", "S256"));
        }
        let separator = if self.endpoint.contains('?') {
            '&'
        } else {
            '?'
        };
        format!("{}{separator}{}", self.endpoint, form(&fields))
    }
}

/// The exchange of a code for an id token.
#[derive(Clone, Copy)]
pub struct CodeExchange<'a> {
    /// The provider's code.
    pub code: &'a str,
    /// The address that it was sent to.
    pub redirect_uri: &'a str,
    /// The verifier of PKCE.
    pub verifier: Option<&'a str>,
    /// `OIDCClientID`.
    pub client_id: &'a str,
    /// `OIDCClientSecret`; empty for a public client.
    pub client_secret: &'a str,
}

/// Shows neither code, verifier nor secret.
impl std::fmt::Debug for CodeExchange<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeExchange")
            .field("client_id", &self.client_id)
            .field("redirect_uri", &self.redirect_uri)
            .finish_non_exhaustive()
    }
}

impl CodeExchange<'_> {
    /// The body, as a form. A public client names itself in it.
    pub fn body(&self) -> String {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", self.code),
            ("redirect_uri", self.redirect_uri),
        ];
        if let Some(verifier) = self.verifier {
            fields.push(("code_verifier", verifier));
        }
        if self.client_secret.is_empty() {
            fields.push(("client_id", self.client_id));
        }
        form(&fields)
    }

    /// The `Authorization` header (RFC 6749, section 2.3.1: both parts are encoded as in a form);
    /// `None` for a public client.
    pub fn authorization(&self) -> Option<String> {
        if self.client_secret.is_empty() {
            return None;
        }
        let encoded = [self.client_id, self.client_secret].map(percent_encode);
        Some(format!("Basic {}", STANDARD.encode(encoded.join(":"))))
    }
}

/// The challenge of a verifier (RFC 7636, S256).
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// `name=value&..`, the values encoded.
pub fn form(fields: &[(&str, &str)]) -> String {
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", percent_encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Encodes all but the unreserved characters (RFC 3986, section 2.3).
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
