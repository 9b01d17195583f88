//! The signature of a workload token, with the root keys that a state has.

use uuid::Uuid;

use super::{ClaimsError, IdentityClaims, RSA_KID_SUFFIX};
use crate::jwt::{JwtError, SigningAlgorithm, UnverifiedJwt, VerifyingKey};

/// The public halves of one root key.
#[derive(Clone, Copy, Debug)]
pub struct PublicKeyPair<'a> {
    /// Ed25519, 32 bytes.
    pub ed25519: &'a [u8],
    /// RSA: a `RSAPublicKey` of PKCS#1 in DER.
    pub rsa: &'a [u8],
}

/// The claims of a workload token, and the root key that signed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedIdentity {
    /// The id of the root key.
    pub root_key: Uuid,
    /// The claims.
    pub claims: IdentityClaims,
}

/// Why a workload token is not one of this cluster.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenError {
    /// It is no token, or its signature is not that of the key that it names.
    #[error(transparent)]
    Jwt(#[from] JwtError),
    /// Its header names no root key that is known: one that was made a moment ago may be.
    #[error("the token names a root key that is not known")]
    UnknownKey,
    /// Its claims are not those of a workload.
    #[error(transparent)]
    Claims(#[from] ClaimsError),
}

/// The claims of a workload token. The name of the key decides the algorithm: the id of a root key
/// stands for EdDSA, followed by `.rsa` for RS256. `find` answers the public halves of a root key.
/// Audience, times and the allocation are not looked at.
///
/// # Errors
/// See [`TokenError`]. [`TokenError::UnknownKey`] costs no signature.
pub fn verify<'k>(
    token: &str,
    find: impl FnOnce(Uuid) -> Option<PublicKeyPair<'k>>,
) -> Result<VerifiedIdentity, TokenError> {
    let parsed = UnverifiedJwt::parse(token)?;
    let kid = parsed.kid().ok_or(TokenError::UnknownKey)?.to_owned();
    let (id, algorithm) = match kid.strip_suffix(RSA_KID_SUFFIX) {
        Some(id) => (id, SigningAlgorithm::Rs256),
        None => (kid.as_str(), SigningAlgorithm::EdDsa),
    };
    let root_key = root_key_id(id).ok_or(TokenError::UnknownKey)?;
    let pair = find(root_key).ok_or(TokenError::UnknownKey)?;
    let key = match algorithm {
        SigningAlgorithm::EdDsa => VerifyingKey::named_ed25519(kid, pair.ed25519),
        _ => Some(VerifyingKey::named_rsa(kid, pair.rsa)),
    };
    let key = key.ok_or(TokenError::UnknownKey)?;
    let members = parsed.signed_by(&[key], &[algorithm])?;
    let claims = IdentityClaims::read(&members)?;
    Ok(VerifiedIdentity { root_key, claims })
}

/// An id in the one form that we write: another form of the same id is another name.
fn root_key_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.hyphenated().to_string() == text).then_some(id)
}
