//! The algorithms that a token may be signed with: those with a public key.

use std::fmt;

use jsonwebtoken::{Algorithm, AlgorithmFamily};

/// An algorithm with a public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SigningAlgorithm {
    /// RSA with PKCS#1 padding and SHA-256.
    Rs256,
    /// RSA with PKCS#1 padding and SHA-384.
    Rs384,
    /// RSA with PKCS#1 padding and SHA-512.
    Rs512,
    /// RSA with PSS padding and SHA-256.
    Ps256,
    /// RSA with PSS padding and SHA-384.
    Ps384,
    /// RSA with PSS padding and SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The name in a header and in `SigningAlgs` (RFC 7518, RFC 8037).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of this name. `None` for `none`, for HMAC and for unknown names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// Whether a key of `family` can be used with it.
    pub(super) fn is_of(self, family: AlgorithmFamily) -> bool {
        self.known().family() == family
    }

    pub(super) fn known(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Rs384 => Algorithm::RS384,
            Self::Rs512 => Algorithm::RS512,
            Self::Ps256 => Algorithm::PS256,
            Self::Ps384 => Algorithm::PS384,
            Self::Ps512 => Algorithm::PS512,
            Self::Es256 => Algorithm::ES256,
            Self::Es384 => Algorithm::ES384,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

impl fmt::Display for SigningAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
