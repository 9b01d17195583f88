//! Public keys that tokens are verified with.

use std::fmt;

use jsonwebtoken::{AlgorithmFamily, DecodingKey, DecodingKeyKind};

use super::SigningAlgorithm;

/// Bytes of an uncompressed point on P-256 and on P-384.
const P256_POINT_BYTES: usize = 65;
const P384_POINT_BYTES: usize = 97;
/// Bytes of a modulus: 2,048 to 8,192 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Bytes of a PEM text: a certificate with a large key.
const PEM_BYTES_MAX: usize = 16 * 1024;

/// Why a text is no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// It is no PEM of a public key.
    #[error(
        "not a public key in PEM (BEGIN PUBLIC KEY, RSA PUBLIC KEY or CERTIFICATE) of at most \
         {PEM_BYTES_MAX} bytes"
    )]
    NotPem,
    /// It is a private key.
    #[error("a private key: write the public key of the pair")]
    Private,
    /// Its kind is not supported.
    #[error("not an RSA key of 2048 to 8192 bits, nor a key on P-256, P-384 or Ed25519")]
    Kind,
}

/// A public key, with the algorithms that it may be used for.
#[derive(Clone)]
pub struct VerifyingKey {
    kid: Option<String>,
    /// Where the key set binds the key to one algorithm.
    only: Option<SigningAlgorithm>,
    key: DecodingKey,
}

impl VerifyingKey {
    /// A key of a configuration: SubjectPublicKeyInfo, PKCS#1 or a certificate, in PEM. It has no
    /// name.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if text.len() > PEM_BYTES_MAX {
            return Err(KeyError::NotPem);
        }
        let label = text
            .strip_prefix("-----BEGIN ")
            .and_then(|rest| rest.split_once("-----"))
            .map(|(label, _)| label);
        match label {
            Some("PUBLIC KEY" | "RSA PUBLIC KEY" | "CERTIFICATE") => {}
            Some(label) if label.ends_with("PRIVATE KEY") => return Err(KeyError::Private),
            _ => return Err(KeyError::NotPem),
        }
        let bytes = text.as_bytes();
        // Each of these refuses keys of other kinds.
        let key = DecodingKey::from_ed_pem(bytes)
            .or_else(|_| DecodingKey::from_ec_pem(bytes))
            .or_else(|_| DecodingKey::from_rsa_pem(bytes))
            .map_err(|_| KeyError::Kind)?;
        let made = Self {
            kid: None,
            only: None,
            key,
        };
        // An EC point of another length is on another curve.
        let is_usable = SigningAlgorithm::ALL.iter().any(|known| made.fits(*known));
        is_usable.then_some(made).ok_or(KeyError::Kind)
    }

    /// An RSA key of a key set: modulus and exponent, big-endian.
    pub(crate) fn rsa(
        kid: Option<String>,
        only: Option<SigningAlgorithm>,
        modulus: &[u8],
        exponent: &[u8],
    ) -> Option<Self> {
        // Some providers write a sign byte in front, which is none of the number's.
        let modulus = &modulus[modulus.iter().take_while(|byte| **byte == 0).count()..];
        let is_usable = MODULUS_BYTES.contains(&modulus.len()) && (1..=8).contains(&exponent.len());
        let key = DecodingKey::from_rsa_raw_components(modulus, exponent);
        is_usable.then_some(Self { kid, only, key })
    }

    /// A key on a NIST curve of a key set: the coordinates of its point.
    pub(crate) fn ec(
        kid: Option<String>,
        only: Option<SigningAlgorithm>,
        x: &[u8],
        y: &[u8],
    ) -> Option<Self> {
        let point = [&[4], x, y].concat();
        let is_usable =
            x.len() == y.len() && [P256_POINT_BYTES, P384_POINT_BYTES].contains(&point.len());
        let key = DecodingKey::from_ec_der(&point);
        is_usable.then_some(Self { kid, only, key })
    }

    /// An Ed25519 key of a key set.
    pub(crate) fn ed25519(
        kid: Option<String>,
        only: Option<SigningAlgorithm>,
        public: &[u8],
    ) -> Option<Self> {
        let key = DecodingKey::from_ed_der(public);
        (public.len() == 32).then_some(Self { kid, only, key })
    }

    /// The Ed25519 key with this name: 32 bytes. It verifies EdDSA alone.
    pub fn named_ed25519(kid: String, public: &[u8]) -> Option<Self> {
        Self::ed25519(Some(kid), Some(SigningAlgorithm::EdDsa), public)
    }

    /// The RSA key with this name: a `RSAPublicKey` of PKCS#1 in DER. It verifies RS256 alone.
    pub fn named_rsa(kid: String, public: &[u8]) -> Self {
        Self {
            kid: Some(kid),
            only: Some(SigningAlgorithm::Rs256),
            key: DecodingKey::from_rsa_der(public),
        }
    }

    /// The RSA key with this name: modulus and exponent, big-endian. It verifies RS256 alone.
    pub fn named_rsa_numbers(kid: String, modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        Self::rsa(Some(kid), Some(SigningAlgorithm::Rs256), modulus, exponent)
    }

    /// The key's name in its set.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Whether a token that names `wanted` may be signed by this key.
    pub(super) fn answers_to(&self, wanted: Option<&str>) -> bool {
        match (&self.kid, wanted) {
            (Some(own), Some(wanted)) => own == wanted,
            (None, _) | (_, None) => true,
        }
    }

    /// Whether the key can be used with `algorithm`.
    pub(super) fn fits(&self, algorithm: SigningAlgorithm) -> bool {
        if self.only.is_some_and(|only| only != algorithm) {
            return false;
        }
        let family = self.key.family();
        if !algorithm.is_of(family) {
            return false;
        }
        match (family, self.key.kind()) {
            (AlgorithmFamily::Ec, DecodingKeyKind::SecretOrDer(point)) => {
                let wanted = match algorithm {
                    SigningAlgorithm::Es384 => P384_POINT_BYTES,
                    _ => P256_POINT_BYTES,
                };
                point.len() == wanted
            }
            (AlgorithmFamily::Ed, DecodingKeyKind::SecretOrDer(public)) => public.len() == 32,
            (AlgorithmFamily::Rsa, _) => true,
            _ => false,
        }
    }

    pub(super) fn verifies(
        &self,
        signature: &str,
        signed: &str,
        algorithm: SigningAlgorithm,
    ) -> bool {
        let known = algorithm.known();
        jsonwebtoken::crypto::verify(signature, signed.as_bytes(), &self.key, known)
            .unwrap_or(false)
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingKey")
            .field("kid", &self.kid)
            .field("family", &self.key.family())
            .finish_non_exhaustive()
    }
}
