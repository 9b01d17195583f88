//! Tokens that are signed here.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use serde_json::{Map, Value, json};

use super::{KeyError, SigningAlgorithm};

/// A private key and the one algorithm that it signs with.
#[derive(Clone)]
pub struct SigningKey {
    algorithm: SigningAlgorithm,
    kid: Option<String>,
    key: EncodingKey,
}

impl SigningKey {
    /// A key in PEM (PKCS#8).
    ///
    /// # Errors
    /// [`KeyError::Kind`] where the text is no private key for `algorithm`.
    pub fn from_pem(
        algorithm: SigningAlgorithm,
        kid: Option<String>,
        text: &str,
    ) -> Result<Self, KeyError> {
        let bytes = text.as_bytes();
        let key = match algorithm {
            SigningAlgorithm::EdDsa => EncodingKey::from_ed_pem(bytes),
            SigningAlgorithm::Es256 | SigningAlgorithm::Es384 => EncodingKey::from_ec_pem(bytes),
            _ => EncodingKey::from_rsa_pem(bytes),
        };
        let key = key.map_err(|_| KeyError::Kind)?;
        Ok(Self {
            algorithm,
            kid,
            key,
        })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("algorithm", &self.algorithm)
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

/// Signs claims. The header holds `alg`, `typ` and, where the key has a name, `kid`.
///
/// # Errors
/// [`KeyError::Kind`] where the key cannot sign with its algorithm.
pub fn sign(claims: &Map<String, Value>, key: &SigningKey) -> Result<String, KeyError> {
    let mut header = json!({"alg": key.algorithm.as_str(), "typ": "JWT"});
    if let Some(kid) = &key.kid {
        header["kid"] = kid.as_str().into();
    }
    let claims = Value::Object(claims.clone());
    let encoded = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!("{}.{}", encoded(header), encoded(claims));
    let known = key.algorithm.known();
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &key.key, known)
        .map_err(|_| KeyError::Kind)?;
    Ok(format!("{signed}.{signature}"))
}
