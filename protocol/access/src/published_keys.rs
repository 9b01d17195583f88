//! The key set (JWKS, RFC 7517) that this cluster publishes: the public halves of its root keys.
//!
//! ```text
//!  root key ─┬─ Ed25519 (RFC 8037)  kid = key id         tokens for this API
//!            └─ RSA (RFC 7518)      kid = <key id>.rsa   tokens for other relying parties
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::identity::RSA_KID_SUFFIX;

/// DER (X.690): the tags of `RSAPublicKey ::= SEQUENCE { INTEGER, INTEGER }`.
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;

/// The public halves of one root key.
#[derive(Clone, Copy, Debug)]
pub struct PublishedKey<'a> {
    /// The root key's id, as text.
    pub id: &'a str,
    /// Ed25519, 32 bytes.
    pub ed25519: &'a [u8],
    /// RSA: a `RSAPublicKey` of PKCS#1 (RFC 8017, A.1.1) in DER.
    pub rsa: &'a [u8],
}

/// The key set of these root keys, as JSON. An RSA half that is no `RSAPublicKey` is left out.
pub fn key_set<'a>(keys: impl IntoIterator<Item = PublishedKey<'a>>) -> Vec<u8> {
    let mut entries = Vec::new();
    for PublishedKey { id, ed25519, rsa } in keys {
        entries.push(json!({
            "kid": id, "alg": "EdDSA", "use": "sig",
            "kty": "OKP", "crv": "Ed25519", "x": encoded(ed25519),
        }));
        if let Some((modulus, exponent)) = rsa_parts(rsa) {
            entries.push(json!({
                "kid": format!("{id}{RSA_KID_SUFFIX}"), "alg": "RS256", "use": "sig",
                "kty": "RSA", "n": encoded(modulus), "e": encoded(exponent),
            }));
        }
    }
    Value::to_string(&json!({ "keys": entries })).into_bytes()
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Modulus and exponent, without leading zeros (RFC 7518, section 6.3.1.1).
fn rsa_parts(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (numbers, end) = der_value(der, SEQUENCE)?;
    let (modulus, rest) = der_value(numbers, INTEGER)?;
    let (exponent, rest) = der_value(rest, INTEGER)?;
    (end.is_empty() && rest.is_empty()).then(|| (without_zeros(modulus), without_zeros(exponent)))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// The content of the first value, which has to have this tag, and the bytes behind it.
fn der_value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let count = usize::from(long & 0x7f);
            let (digits, rest) = rest.split_at_checked(count)?;
            let is_short = (1..=2).contains(&count);
            let length = digits
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            (is_short.then_some(length)?, rest)
        }
    };
    (*found == tag).then_some(())?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwks;

    /// `RSAPublicKey` of a modulus of 256 bytes, which begins with a one, and 65537.
    fn rsa() -> Vec<u8> {
        let mut modulus = vec![0x02, 0x82, 0x01, 0x01, 0x00];
        modulus.extend([0xc3; 256]);
        let exponent = [0x02, 0x03, 0x01, 0x00, 0x01];
        let length = u16::try_from(modulus.len() + exponent.len()).expect("short");
        let mut der = vec![0x30, 0x82];
        der.extend(length.to_be_bytes());
        der.extend(modulus);
        der.extend(exponent);
        der
    }

    #[test]
    fn both_halves_of_a_key_are_published_with_their_kids() {
        let rsa = rsa();
        let key = PublishedKey {
            id: "11111111-2222-4333-8444-555555555555",
            ed25519: &[7; 32],
            rsa: &rsa,
        };
        let set: Value = serde_json::from_slice(&key_set([key])).expect("JSON");
        let expected = json!({ "keys": [
            { "kid": key.id, "alg": "EdDSA", "use": "sig", "kty": "OKP", "crv": "Ed25519",
              "x": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc" },
            { "kid": format!("{}.rsa", key.id), "alg": "RS256", "use": "sig", "kty": "RSA",
              "n": URL_SAFE_NO_PAD.encode([0xc3; 256]), "e": "AQAB" },
        ] });
        assert_eq!(set, expected);
    }

    #[test]
    fn a_published_set_is_read_as_keys_that_verify() {
        let rsa = rsa();
        let ed25519 = [7; 32];
        let keys = ["a", "b"].map(|id| PublishedKey {
            id,
            ed25519: &ed25519,
            rsa: &rsa,
        });
        assert_eq!(jwks::parse(&key_set(keys)).expect("a key set").len(), 4);
    }

    #[test]
    fn an_rsa_half_that_is_none_is_left_out() {
        let good = rsa();
        let cut = &good[..good.len() - 1];
        let more = [good.as_slice(), &[0]].concat();
        for rsa in [&[][..], &[0x30], &[0x30, 0x85], cut, &more, &good[4..]] {
            let key = PublishedKey {
                id: "a",
                ed25519: &[7; 32],
                rsa,
            };
            let set: Value = serde_json::from_slice(&key_set([key])).expect("JSON");
            assert_eq!(set["keys"].as_array().map(Vec::len), Some(1), "{rsa:?}");
        }
    }

    #[test]
    fn a_cluster_without_keys_publishes_an_empty_set() {
        assert_eq!(key_set([]), br#"{"keys":[]}"#);
    }
}
