//! Forged workload tokens (threat 5): the key that is named decides the algorithm.

use std::cell::Cell;
use std::sync::OnceLock;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use protocol_access::identity::{
    IdentityClaims, OWN_AUDIENCE, PublicKeyPair, TokenError, kid_of, verify,
};
use protocol_access::jwt::{JWT_BYTES_MAX, JwtError, SigningAlgorithm, SigningInput};

use super::{ROOT_KEY, identity, issued};

struct Keys {
    ed25519: Ed25519KeyPair,
    rsa: RsaKeyPair,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys {
        ed25519: Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed"),
        rsa: RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"),
    })
}

fn sign(algorithm: SigningAlgorithm, message: &[u8]) -> Vec<u8> {
    match algorithm {
        SigningAlgorithm::EdDsa => keys().ed25519.sign(message).as_ref().to_vec(),
        _ => {
            let mut signature = vec![0; 256];
            let random = SystemRandom::new();
            let rsa = &keys().rsa;
            rsa.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                .expect("signed");
            signature
        }
    }
}

fn claims() -> IdentityClaims {
    issued(&identity("default", &[OWN_AUDIENCE], 0), None)
}

/// A token with this header, signed by the key of `algorithm`.
fn with_header(header: &str, algorithm: SigningAlgorithm) -> String {
    let claims = serde_json::to_vec(&claims()).expect("JSON");
    let encoded = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
    let signed = format!("{}.{}", encoded(header.as_bytes()), encoded(&claims));
    let signature = sign(algorithm, signed.as_bytes());
    format!("{signed}.{}", encoded(&signature))
}

fn good(algorithm: SigningAlgorithm) -> String {
    let input = SigningInput::new(algorithm, &kid_of(ROOT_KEY, algorithm), &claims());
    let signature = sign(algorithm, input.as_bytes());
    input.with_signature(&signature)
}

fn check(token: &str) -> Result<IdentityClaims, TokenError> {
    let (ed25519, rsa) = (keys().ed25519.public_key(), keys().rsa.public_key());
    verify(token, |id| {
        (id == ROOT_KEY).then_some(PublicKeyPair {
            ed25519: ed25519.as_ref(),
            rsa: rsa.as_ref(),
        })
    })
    .map(|verified| {
        assert_eq!(verified.root_key, ROOT_KEY);
        verified.claims
    })
}

const BOTH: [SigningAlgorithm; 2] = [SigningAlgorithm::EdDsa, SigningAlgorithm::Rs256];

#[test]
fn token_of_either_algorithm_is_verified_by_its_root_key() {
    for algorithm in BOTH {
        assert_eq!(check(&good(algorithm)), Ok(claims()), "{algorithm}");
    }
}

#[test]
fn name_of_the_key_decides_the_algorithm() {
    let (id, rsa) = (ROOT_KEY.to_string(), format!("{ROOT_KEY}.rsa"));
    for (alg, kid, signer) in [
        ("RS256", id.as_str(), SigningAlgorithm::Rs256),
        ("EdDSA", rsa.as_str(), SigningAlgorithm::EdDsa),
        ("EdDSA", id.as_str(), SigningAlgorithm::Rs256),
        ("RS256", rsa.as_str(), SigningAlgorithm::EdDsa),
        ("PS256", rsa.as_str(), SigningAlgorithm::Rs256),
        ("none", id.as_str(), SigningAlgorithm::EdDsa),
    ] {
        let header = format!(r#"{{"alg":"{alg}","kid":"{kid}"}}"#);
        let refused = check(&with_header(&header, signer)).expect_err("a forged header");
        assert!(
            matches!(refused, TokenError::Jwt(_)),
            "{alg} {kid}: {refused}"
        );
    }
}

#[test]
fn hmac_over_the_public_key_is_refused() {
    let claims = serde_json::to_vec(&claims()).expect("JSON");
    for (kid, secret) in [
        (ROOT_KEY.to_string(), keys().ed25519.public_key().as_ref()),
        (format!("{ROOT_KEY}.rsa"), keys().rsa.public_key().as_ref()),
    ] {
        let header = format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#);
        let parts = [header.as_bytes(), &claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = parts.join(".");
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
        let refused = check(&format!("{signed}.{signature}"));
        assert!(
            matches!(refused, Err(TokenError::Jwt(JwtError::Algorithm(_)))),
            "{kid}: {refused:?}"
        );
    }
}

#[test]
fn unknown_and_odd_names_of_keys_are_refused_without_a_signature_check() {
    let upper = ROOT_KEY.to_string().to_uppercase();
    let braced = format!("{{{ROOT_KEY}}}");
    let simple = ROOT_KEY.simple().to_string();
    let twice = format!("{ROOT_KEY}.rsa.rsa");
    let other = uuid::Uuid::from_u128(1).to_string();
    let padded = format!("{ROOT_KEY} ");
    let up = format!("../{ROOT_KEY}");
    for kid in [
        "",
        "../../etc/passwd",
        "..",
        &upper,
        &braced,
        &simple,
        &twice,
        &other,
        &padded,
        &up,
    ] {
        let header = serde_json::json!({"alg": "EdDSA", "kid": kid}).to_string();
        let refused = check(&with_header(&header, SigningAlgorithm::EdDsa));
        // Were the signature looked at, the good one of the known key would pass.
        let is_simple_form = kid == upper && upper == ROOT_KEY.to_string();
        assert!(
            is_simple_form || refused == Err(TokenError::UnknownKey),
            "{kid}: {refused:?}"
        );
    }
    let without = with_header(r#"{"alg":"EdDSA"}"#, SigningAlgorithm::EdDsa);
    assert_eq!(check(&without), Err(TokenError::UnknownKey));
}

#[test]
fn repeated_keys_and_bent_encodings_are_refused() {
    let id = ROOT_KEY;
    let header = format!(r#"{{"alg":"EdDSA","kid":"{id}","kid":"{id}"}}"#);
    check(&with_header(&header, SigningAlgorithm::EdDsa)).expect_err("kid repeats");
    let header = format!(r#"{{"alg":"EdDSA","kid":"{id}"}}"#);
    let twice = r#"{"sub":"a","sub":"b"}"#;
    let signed = [header.as_str(), twice].map(|part| URL_SAFE_NO_PAD.encode(part));
    let signed = signed.join(".");
    let signature = sign(SigningAlgorithm::EdDsa, signed.as_bytes());
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    check(&token).expect_err("a claim repeats");
    let good = good(SigningAlgorithm::EdDsa);
    for bent in [
        format!("{good}="),
        format!(" {good}"),
        format!("{good}."),
        good.replace('.', ".."),
    ] {
        check(&bent).expect_err(&bent);
    }
}

#[test]
fn huge_token_is_refused_before_a_key_is_looked_up() {
    let asked = Cell::new(false);
    let header = serde_json::json!({"alg": "EdDSA", "kid": ROOT_KEY, "x": "a".repeat(9000)});
    let token = with_header(&header.to_string(), SigningAlgorithm::EdDsa);
    assert!(token.len() > JWT_BYTES_MAX);
    let refused = verify(&token, |_| {
        asked.set(true);
        None
    });
    assert_eq!(
        refused,
        Err(TokenError::Jwt(JwtError::TooLong(token.len())))
    );
    assert!(!asked.get());
}

#[test]
fn every_changed_byte_of_a_token_is_refused() {
    for algorithm in BOTH {
        let token = good(algorithm);
        for at in 0..token.len() {
            let mut bent = token.clone().into_bytes();
            bent[at] = if bent[at] == b'A' { b'B' } else { b'A' };
            let bent = String::from_utf8(bent).expect("ASCII");
            assert!(check(&bent).is_err(), "{algorithm} byte {at}");
        }
    }
}
