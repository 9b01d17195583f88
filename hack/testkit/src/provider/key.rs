//! The keys that a provider signs with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use protocol_access::jwt::{SigningAlgorithm, SigningKey};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};

/// The kind of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    P256,
    Rsa2048,
}

/// A key pair with its name.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: String,
    pair: KeyPair,
    pub(super) kind: Kind,
}

impl Key {
    pub(super) fn new(id: String, kind: Kind) -> Self {
        let pair = match kind {
            Kind::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            Kind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        };
        let pair = pair.expect("a key pair");
        Self { id, pair, kind }
    }

    pub(super) fn signing(&self) -> SigningKey {
        let pem = self.pair.serialize_pem();
        let algorithm = match self.kind {
            Kind::P256 => SigningAlgorithm::Es256,
            Kind::Rsa2048 => SigningAlgorithm::Rs256,
        };
        SigningKey::from_pem(algorithm, Some(self.id.clone()), &pem).expect("a key")
    }

    /// The public key as a JWK (RFC 7518, section 6).
    pub(super) fn published(&self) -> Value {
        let raw = self.pair.public_key_raw();
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self.kind {
            // An uncompressed point: 4, x, y.
            Kind::P256 => json!({
                "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id,
                "x": part(&raw[1..33]), "y": part(&raw[33..65]),
            }),
            // A sequence of two numbers in DER (RFC 8017, appendix A.1.1): 9 bytes before the
            // modulus, 2 before the exponent. 2048 bits begin with a one, so a zero is before them.
            Kind::Rsa2048 => json!({
                "kty": "RSA", "alg": "RS256", "use": "sig", "kid": self.id,
                "n": part(&raw[9..265]), "e": part(&raw[267..270]),
            }),
        }
    }
}
