//! A token's text to its parts, before anything in it is believed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::{SigningAlgorithm, VerifyingKey};
use crate::unique_json;

/// The longest token. A larger header of a request is refused before it gets here.
pub const JWT_BYTES_MAX: usize = 8 * 1024;
/// The longest name of a key.
const KID_BYTES_MAX: usize = 256;

/// Why a token is refused. No text shows the token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JwtError {
    /// It is longer than [`JWT_BYTES_MAX`].
    #[error("the token has {0} bytes: at most {JWT_BYTES_MAX} are read")]
    TooLong(usize),
    /// It has not three parts with dots between them.
    #[error("not a signed token (JWT): expected three parts with dots between them")]
    Parts,
    /// A part is not base64url without padding.
    #[error("the {0} of the token is not base64url without padding")]
    Base64(&'static str),
    /// A part is no JSON object with unique keys.
    #[error("the {part} of the token is not a JSON object with unique keys: {why}")]
    Json {
        /// The part.
        part: &'static str,
        /// The parser's words.
        why: String,
    },
    /// A member of the header has the wrong type or length.
    #[error("the header of the token has no usable {0:?}")]
    Header(&'static str),
    /// The header asks for an extension (RFC 7515, section 4.1.11).
    #[error("the header of the token names critical extensions, which are not supported")]
    Critical,
    /// The algorithm has no public key, or is unknown.
    #[error("the token is signed with {0:?}: only algorithms with a public key are accepted")]
    Algorithm(String),
    /// The algorithm is not among those that are accepted.
    #[error("the token is signed with {found}: accepted are {accepted}")]
    NotAccepted {
        /// The algorithm of the header.
        found: SigningAlgorithm,
        /// The accepted ones.
        accepted: String,
    },
    /// No key has the name that the header names.
    #[error("no key of the provider has the id {0:?}")]
    UnknownKey(String),
    /// No key fits the algorithm.
    #[error("no key fits {0}")]
    NoKey(SigningAlgorithm),
    /// No key made the signature.
    #[error("the signature is not that of a known key")]
    Signature,
}

/// A token whose signature is not checked yet.
#[derive(Debug)]
pub struct UnverifiedJwt<'t> {
    algorithm: SigningAlgorithm,
    kid: Option<String>,
    claims: Map<String, Value>,
    /// Header and claims as they were signed.
    signed: &'t str,
    signature: &'t str,
}

impl<'t> UnverifiedJwt<'t> {
    /// Reads a token. The length is compared before anything is decoded.
    ///
    /// # Errors
    /// See [`JwtError`].
    pub fn parse(token: &'t str) -> Result<Self, JwtError> {
        if token.len() > JWT_BYTES_MAX {
            return Err(JwtError::TooLong(token.len()));
        }
        let mut parts = token.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(JwtError::Parts);
        };
        let signed = &token[..header.len() + 1 + claims.len()];
        let header = object("header", header)?;
        let claims = object("payload", claims)?;
        if decoded("signature", signature)?.is_empty() && header.get("alg") != Some(&"none".into())
        {
            return Err(JwtError::Base64("signature"));
        }
        if header.contains_key("crit") {
            return Err(JwtError::Critical);
        }
        let Some(Value::String(name)) = header.get("alg") else {
            return Err(JwtError::Header("alg"));
        };
        let Some(algorithm) = SigningAlgorithm::from_name(name) else {
            let shown = name.chars().take(32).collect();
            return Err(JwtError::Algorithm(shown));
        };
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= KID_BYTES_MAX => Some(kid.clone()),
            Some(_) => return Err(JwtError::Header("kid")),
        };
        Ok(Self {
            algorithm,
            kid,
            claims,
            signed,
            signature,
        })
    }

    /// The name of the key, as the header claims.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// The claims, once one of `keys` turns out to have signed them with one of `accepted`.
    ///
    /// A key with a name is used only for tokens that name it or none; a key without a name (a
    /// configured PEM) for every token. A key that tells its algorithm is used with that one alone.
    ///
    /// # Errors
    /// [`JwtError::UnknownKey`] where fetching the keys again may help; other refusals are final.
    pub fn signed_by(
        self,
        keys: &[VerifyingKey],
        accepted: &[SigningAlgorithm],
    ) -> Result<Map<String, Value>, JwtError> {
        let algorithm = self.algorithm;
        if !accepted.contains(&algorithm) {
            let names: Vec<_> = accepted.iter().map(|known| known.as_str()).collect();
            return Err(JwtError::NotAccepted {
                found: algorithm,
                accepted: names.join(", "),
            });
        }
        let named: Vec<_> = keys
            .iter()
            .filter(|key| key.answers_to(self.kid.as_deref()))
            .collect();
        if named.is_empty()
            && let Some(kid) = self.kid
        {
            return Err(JwtError::UnknownKey(kid));
        }
        let mut fitting = named
            .into_iter()
            .filter(|key| key.fits(algorithm))
            .peekable();
        if fitting.peek().is_none() {
            return Err(JwtError::NoKey(algorithm));
        }
        let is_signer = |key: &VerifyingKey| key.verifies(self.signature, self.signed, algorithm);
        if !fitting.any(is_signer) {
            return Err(JwtError::Signature);
        }
        Ok(self.claims)
    }
}

fn decoded(part: &'static str, text: &str) -> Result<Vec<u8>, JwtError> {
    // This engine refuses padding, line breaks and bits behind the last byte.
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| JwtError::Base64(part))
}

fn object(part: &'static str, text: &str) -> Result<Map<String, Value>, JwtError> {
    let bytes = decoded(part, text)?;
    let wrong = |why: String| JwtError::Json { part, why };
    match unique_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))? {
        Value::Object(members) => Ok(members),
        _ => Err(wrong("it is another kind of value".to_owned())),
    }
}
