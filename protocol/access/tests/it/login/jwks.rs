//! Key sets of providers.

use protocol_access::jwks::{JWKS_BYTES_MAX, JWKS_KEYS_MAX, JwksError, parse};
use serde_json::json;

fn okp(kid: &str) -> serde_json::Value {
    let x = super::keys::encoded([7_u8; 32]);
    json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x, "use": "sig"})
}

#[test]
fn keys_of_other_kinds_and_uses_are_passed_over() {
    let short = super::keys::encoded([1_u8; 128]);
    let keys = json!({"keys": [
        okp("good"),
        {"kty": "OKP", "crv": "Ed25519", "kid": "enc", "x": super::keys::encoded([7_u8; 32]),
            "use": "enc"},
        {"kty": "OKP", "crv": "Ed25519", "kid": "hs", "x": super::keys::encoded([7_u8; 32]),
            "alg": "HS256"},
        {"kty": "oct", "k": "AAAA", "kid": "secret"},
        {"kty": "RSA", "n": short, "e": "AQAB", "kid": "1024 bits"},
        {"kty": "EC", "crv": "P-521", "x": "AAAA", "y": "AAAA"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kty": "AKP", "pub": "x"},
    ]});
    let read = parse(keys.to_string().as_bytes()).expect("one key");
    let names: Vec<_> = read.iter().map(|key| key.kid()).collect();
    assert_eq!(names, [Some("good")]);
}

#[test]
fn key_sets_beyond_the_limits_are_refused() {
    let long = vec![b' '; JWKS_BYTES_MAX + 1];
    assert_eq!(parse(&long).err(), Some(JwksError::TooLong(long.len())));
    let many: Vec<_> = (0..=JWKS_KEYS_MAX)
        .map(|number| okp(&number.to_string()))
        .collect();
    let many = json!({"keys": many}).to_string();
    assert_eq!(
        parse(many.as_bytes()).err(),
        Some(JwksError::TooMany(JWKS_KEYS_MAX + 1))
    );
    for text in [
        "",
        "{}",
        "[]",
        r#"{"keys":{}}"#,
        r#"{"keys":[1]}"#,
        "<html>",
    ] {
        assert!(
            matches!(parse(text.as_bytes()), Err(JwksError::Json(_))),
            "{text}"
        );
    }
    assert_eq!(parse(br#"{"keys":[]}"#).err(), Some(JwksError::Empty));
}
