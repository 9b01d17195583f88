//! Key sets (JWKS, RFC 7517): the public keys that a provider publishes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::jwt::{SigningAlgorithm, VerifyingKey};

/// The largest key set, in bytes. Large providers publish about 10 KiB.
pub const JWKS_BYTES_MAX: usize = 256 * 1024;
/// The most keys of a set: each token without a key's name is tried with every one that fits.
pub const JWKS_KEYS_MAX: usize = 100;
/// The longest name of a key.
const KID_BYTES_MAX: usize = 256;

/// Why a document is no key set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JwksError {
    /// It is too long.
    #[error("the key set has {0} bytes: at most {JWKS_BYTES_MAX} are read")]
    TooLong(usize),
    /// It is not JSON of the right shape.
    #[error("not a key set: {0}")]
    Json(String),
    /// It has too many keys.
    #[error("the key set has {0} keys: at most {JWKS_KEYS_MAX} are read")]
    TooMany(usize),
    /// It has no key that tokens can be verified with.
    #[error("the key set has no key for signatures (RSA, EC or OKP)")]
    Empty,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    kid: Option<String>,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

/// The keys of a set that are for signatures. Keys of other kinds are passed over, as providers
/// add new kinds at any time.
///
/// # Errors
/// See [`JwksError`].
pub fn parse(bytes: &[u8]) -> Result<Vec<VerifyingKey>, JwksError> {
    if bytes.len() > JWKS_BYTES_MAX {
        return Err(JwksError::TooLong(bytes.len()));
    }
    let document: Document =
        serde_json::from_slice(bytes).map_err(|error| JwksError::Json(error.to_string()))?;
    if document.keys.len() > JWKS_KEYS_MAX {
        return Err(JwksError::TooMany(document.keys.len()));
    }
    let keys: Vec<_> = document.keys.into_iter().filter_map(usable).collect();
    if keys.is_empty() {
        return Err(JwksError::Empty);
    }
    Ok(keys)
}

fn usable(entry: Entry) -> Option<VerifyingKey> {
    if entry.usage.is_some_and(|usage| usage != "sig") {
        return None;
    }
    // A key that names an algorithm which we do not accept is of no use with another one.
    let only = match entry.alg.as_deref() {
        None | Some("") => None,
        Some(name) => Some(SigningAlgorithm::from_name(name)?),
    };
    let kid = entry.kid.filter(|kid| !kid.is_empty());
    if kid.as_ref().is_some_and(|kid| kid.len() > KID_BYTES_MAX) {
        return None;
    }
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
    match (entry.kty.as_str(), entry.crv.as_str()) {
        ("RSA", _) => VerifyingKey::rsa(kid, only, &bytes(&entry.n)?, &bytes(&entry.e)?),
        ("EC", "P-256" | "P-384") => {
            VerifyingKey::ec(kid, only, &bytes(&entry.x)?, &bytes(&entry.y)?)
        }
        ("OKP", "Ed25519") => VerifyingKey::ed25519(kid, only, &bytes(&entry.x)?),
        _ => None,
    }
}
