//! Fixed keys, and tokens that are signed with them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use protocol_access::jwt::{SigningAlgorithm, SigningKey, VerifyingKey, sign};
use protocol_model::UnixNanos;
use serde_json::{Map, Value, json};

pub(super) const RSA: &str = include_str!("../../keys/rsa.pem");
pub(super) const RSA_PUBLIC: &str = include_str!("../../keys/rsa.pub.pem");
pub(super) const RSA_CERTIFICATE: &str = include_str!("../../keys/rsa.cert.pem");
pub(super) const OTHER_RSA: &str = include_str!("../../keys/other_rsa.pem");
const P256: &str = include_str!("../../keys/p256.pem");
const P256_PUBLIC: &str = include_str!("../../keys/p256.pub.pem");
const P384: &str = include_str!("../../keys/p384.pem");
const P384_PUBLIC: &str = include_str!("../../keys/p384.pub.pem");
const ED25519: &str = include_str!("../../keys/ed25519.pem");
pub(super) const ED25519_PUBLIC: &str = include_str!("../../keys/ed25519.pub.pem");

/// The time of all tests, in seconds and as the code takes it.
pub(super) const NOW_S: i64 = 1_800_000_000;
pub(super) const NOW: UnixNanos = UnixNanos(NOW_S * 1_000_000_000);

pub(super) fn pair(algorithm: SigningAlgorithm) -> (&'static str, &'static str) {
    match algorithm {
        SigningAlgorithm::EdDsa => (ED25519, ED25519_PUBLIC),
        SigningAlgorithm::Es256 => (P256, P256_PUBLIC),
        SigningAlgorithm::Es384 => (P384, P384_PUBLIC),
        _ => (RSA, RSA_PUBLIC),
    }
}

pub(super) fn public(pem: &str) -> VerifyingKey {
    VerifyingKey::from_pem(pem).expect("a public key")
}

pub(super) fn claims() -> Map<String, Value> {
    object(json!({"sub": "robot", "iss": "https://id", "aud": "drover", "exp": NOW_S + 600}))
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("no object: {other}"),
    }
}

pub(super) fn signed(algorithm: SigningAlgorithm, kid: Option<&str>) -> String {
    let kid = kid.map(str::to_owned);
    let key = SigningKey::from_pem(algorithm, kid, pair(algorithm).0).expect("a private key");
    sign(&claims(), &key).expect("a token")
}

pub(super) fn encoded(part: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(part)
}
