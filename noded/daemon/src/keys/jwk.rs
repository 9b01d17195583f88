//! Public keys as JSON Web Keys (RFC 7517, RFC 8037), read strictly.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::KEYS_MAX;

/// The longest modulus of an RSA key: 8,192 bits.
const MODULUS_BYTES_MAX: usize = 1024;

/// One public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// Its id, as the header of a token names it.
    pub kid: String,
    /// Its numbers. The algorithm of a token follows from them, never from the token.
    pub material: KeyMaterial,
}

/// The numbers of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// EdDSA over Ed25519: the public point.
    Ed25519 {
        /// 32 bytes.
        x: [u8; 32],
    },
    /// RS256.
    Rsa {
        /// The modulus, big endian.
        n: Vec<u8>,
        /// The exponent, big endian.
        e: Vec<u8>,
    },
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Jwk>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Jwk {
    kty: String,
    kid: String,
    crv: String,
    x: String,
    n: String,
    e: String,
}

/// The keys of a JWKS document that this release knows.
pub(super) fn keys_of(jwks: &serde_json::Value) -> Result<BTreeMap<String, PublicKey>, String> {
    let document = Document::deserialize(jwks).map_err(|error| error.to_string())?;
    let count = document.keys.len();
    if count > KEYS_MAX {
        return Err(format!("it has {count} keys, more than {KEYS_MAX}"));
    }
    let mut keys = BTreeMap::new();
    for jwk in document.keys {
        let kid = jwk.kid.clone();
        let material = material_of(&jwk).map_err(|problem| format!("key {kid:?}: {problem}"))?;
        if let Some(material) = material {
            keys.insert(kid.clone(), PublicKey { kid, material });
        }
    }
    Ok(keys)
}

/// `None` = a key of another kind.
fn material_of(jwk: &Jwk) -> Result<Option<KeyMaterial>, String> {
    match (jwk.kty.as_str(), jwk.crv.as_str()) {
        ("OKP", "Ed25519") => {
            let x = bytes("x", &jwk.x)?;
            let length = x.len();
            let x = x
                .try_into()
                .map_err(|_| format!("\"x\" has {length} bytes, not 32"))?;
            Ok(Some(KeyMaterial::Ed25519 { x }))
        }
        ("RSA", _) => {
            let (n, e) = (bytes("n", &jwk.n)?, bytes("e", &jwk.e)?);
            if n.len() > MODULUS_BYTES_MAX {
                let length = n.len();
                return Err(format!(
                    "\"n\" has {length} bytes, more than {MODULUS_BYTES_MAX}"
                ));
            }
            Ok(Some(KeyMaterial::Rsa { n, e }))
        }
        _ => Ok(None),
    }
}

fn bytes(field: &str, text: &str) -> Result<Vec<u8>, String> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|error| format!("{field:?}: {error}"))?;
    if bytes.is_empty() {
        return Err(format!("{field:?} is empty"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_of_both_algorithms_are_read_and_others_are_left_out() {
        let x = URL_SAFE_NO_PAD.encode([7; 32]);
        let jwks = json!({"keys": [
            {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "a", "x": x},
            {"kty": "RSA", "alg": "RS256", "kid": "b", "n": "AQID", "e": "AQAB"},
            {"kty": "EC", "crv": "P-256", "kid": "c", "x": "AQ", "y": "AQ"},
        ]});
        let keys = keys_of(&jwks).unwrap();
        let ids: Vec<&str> = keys.keys().map(String::as_str).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(keys["a"].material, KeyMaterial::Ed25519 { x: [7; 32] });
        let (n, e) = (vec![1, 2, 3], vec![1, 0, 1]);
        assert_eq!(keys["b"].material, KeyMaterial::Rsa { n, e });
    }

    #[test]
    fn documents_that_make_no_sense_are_refused_by_key_and_field() {
        for (jwks, problem) in [
            (json!([]), "invalid"),
            (json!({}), "missing field `keys`"),
            (
                json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "AQID"}]}),
                "key \"a\": \"x\" has 3 bytes, not 32",
            ),
            (
                json!({"keys": [{"kty": "RSA", "kid": "b", "n": "AQ==", "e": "AQAB"}]}),
                "key \"b\": \"n\"",
            ),
            (
                json!({"keys": vec![json!({"kty": "EC"}); KEYS_MAX + 1]}),
                "it has 513 keys, more than 512",
            ),
        ] {
            let found = keys_of(&jwks).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }
}
