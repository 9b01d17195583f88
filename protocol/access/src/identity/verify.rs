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
    let named = Named::read(token)?;
    let pair = find(named.root_key).ok_or(TokenError::UnknownKey)?;
    let kid = named.kid.clone();
    let key = match named.algorithm {
        SigningAlgorithm::EdDsa => VerifyingKey::named_ed25519(kid, pair.ed25519),
        _ => Some(VerifyingKey::named_rsa(kid, pair.rsa)),
    };
    named.verify(&key.ok_or(TokenError::UnknownKey)?)
}

/// As [`verify`], with the keys of a set that the servers published: `find` answers the key of this
/// name, bound to its algorithm.
///
/// # Errors
/// See [`TokenError`]. [`TokenError::UnknownKey`] costs no signature.
pub fn verify_published(
    token: &str,
    find: impl FnOnce(&str) -> Option<VerifyingKey>,
) -> Result<VerifiedIdentity, TokenError> {
    let named = Named::read(token)?;
    let key = find(&named.kid).ok_or(TokenError::UnknownKey)?;
    named.verify(&key)
}

/// A token, and the key that its header names.
struct Named<'t> {
    parsed: UnverifiedJwt<'t>,
    kid: String,
    root_key: Uuid,
    algorithm: SigningAlgorithm,
}

impl<'t> Named<'t> {
    fn read(token: &'t str) -> Result<Self, TokenError> {
        let parsed = UnverifiedJwt::parse(token)?;
        let kid = parsed.kid().ok_or(TokenError::UnknownKey)?.to_owned();
        let (id, algorithm) = match kid.strip_suffix(RSA_KID_SUFFIX) {
            Some(id) => (id, SigningAlgorithm::Rs256),
            None => (kid.as_str(), SigningAlgorithm::EdDsa),
        };
        let root_key = root_key_id(id).ok_or(TokenError::UnknownKey)?;
        Ok(Self {
            parsed,
            root_key,
            algorithm,
            kid,
        })
    }

    fn verify(self, key: &VerifyingKey) -> Result<VerifiedIdentity, TokenError> {
        let keys = std::slice::from_ref(key);
        let members = self.parsed.signed_by(keys, &[self.algorithm])?;
        let claims = IdentityClaims::read(&members)?;
        Ok(VerifiedIdentity {
            root_key: self.root_key,
            claims,
        })
    }
}

/// An id in the one form that we write: another form of the same id is another name.
fn root_key_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.hyphenated().to_string() == text).then_some(id)
}
