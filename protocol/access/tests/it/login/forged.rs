//! Signed tokens that are good, and every kind of forgery (threat 5).

use aws_lc_rs::hmac;
use protocol_access::jwt::{
    JWT_BYTES_MAX, JwtError, SigningAlgorithm, SigningKey, UnverifiedJwt, VerifyingKey, sign,
};
use serde_json::json;

use super::keys::{OTHER_RSA, RSA_CERTIFICATE, RSA_PUBLIC, claims, encoded, pair, public, signed};

const RS256: &[SigningAlgorithm] = &[SigningAlgorithm::Rs256];

fn refusal(token: &str, keys: &[VerifyingKey], accepted: &[SigningAlgorithm]) -> JwtError {
    UnverifiedJwt::parse(token)
        .and_then(|jwt| jwt.signed_by(keys, accepted))
        .expect_err("a forged token")
}

#[test]
fn token_of_each_algorithm_is_verified_with_its_public_key() {
    for algorithm in SigningAlgorithm::ALL {
        let token = signed(algorithm, None);
        let keys = [public(pair(algorithm).1)];
        let jwt = UnverifiedJwt::parse(&token).expect("a token");
        let read = jwt.signed_by(&keys, &[algorithm]).expect("a signature");
        assert_eq!(read, claims(), "{algorithm}");
    }
    let token = signed(SigningAlgorithm::Rs256, None);
    let jwt = UnverifiedJwt::parse(&token).expect("a token");
    jwt.signed_by(&[public(RSA_CERTIFICATE)], RS256)
        .expect("the key of a certificate");
}

#[test]
fn each_algorithm_is_refused_where_only_others_are_accepted() {
    let keys: Vec<_> = SigningAlgorithm::ALL
        .map(|known| public(pair(known).1))
        .into();
    for algorithm in SigningAlgorithm::ALL {
        let others: Vec<_> = SigningAlgorithm::ALL
            .into_iter()
            .filter(|other| *other != algorithm)
            .collect();
        let error = refusal(&signed(algorithm, None), &keys, &others);
        assert!(matches!(error, JwtError::NotAccepted { .. }), "{error}");
    }
}

#[test]
fn header_that_names_another_algorithm_of_an_accepted_key_is_refused() {
    let all: Vec<_> = SigningAlgorithm::ALL.into();
    let keys: Vec<_> = SigningAlgorithm::ALL
        .map(|known| public(pair(known).1))
        .into();
    for made in SigningAlgorithm::ALL {
        let token = signed(made, None);
        let behind = token.split_once('.').expect("three parts").1;
        for claimed in SigningAlgorithm::ALL
            .into_iter()
            .filter(|other| *other != made)
        {
            let header = encoded(json!({"alg": claimed.as_str()}).to_string());
            let error = refusal(&format!("{header}.{behind}"), &keys, &all);
            assert_eq!(error, JwtError::Signature, "{made} as {claimed}");
        }
    }
}

#[test]
fn key_is_never_used_with_the_algorithm_of_another_kind() {
    for (signer, holder) in [
        (SigningAlgorithm::Rs256, SigningAlgorithm::EdDsa),
        (SigningAlgorithm::EdDsa, SigningAlgorithm::Rs256),
        (SigningAlgorithm::Es384, SigningAlgorithm::Es256),
    ] {
        let error = refusal(&signed(signer, None), &[public(pair(holder).1)], &[signer]);
        assert_eq!(error, JwtError::NoKey(signer));
    }
}

#[test]
fn token_without_signature_or_with_hmac_of_the_public_key_is_refused() {
    let payload = encoded(serde_json::to_string(&claims()).expect("JSON"));
    let keys = [public(RSA_PUBLIC)];
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let header = encoded(json!({"alg": name}).to_string());
        for signature in ["", "AAAA"] {
            let token = format!("{header}.{payload}.{signature}");
            let error = refusal(&token, &keys, RS256);
            assert!(
                matches!(
                    error,
                    JwtError::Algorithm(_) | JwtError::Base64("signature")
                ),
                "{error}"
            );
        }
    }
    for (name, algorithm) in [("HS256", hmac::HMAC_SHA256), ("HS512", hmac::HMAC_SHA512)] {
        let signed = format!("{}.{payload}", encoded(json!({"alg": name}).to_string()));
        let key = hmac::Key::new(algorithm, RSA_PUBLIC.as_bytes());
        let token = format!("{signed}.{}", encoded(hmac::sign(&key, signed.as_bytes())));
        assert_eq!(
            refusal(&token, &keys, RS256),
            JwtError::Algorithm(name.to_owned())
        );
    }
}

#[test]
fn signature_of_another_key_and_changed_claims_are_refused() {
    let keys = [public(RSA_PUBLIC)];
    let other = SigningKey::from_pem(SigningAlgorithm::Rs256, None, OTHER_RSA).expect("a key");
    let foreign = sign(&claims(), &other).expect("a token");
    assert_eq!(refusal(&foreign, &keys, RS256), JwtError::Signature);

    let token = signed(SigningAlgorithm::Rs256, None);
    let parts: Vec<_> = token.split('.').collect();
    let more = encoded(json!({"sub": "admin", "exp": 9_999_999_999_u64}).to_string());
    let changed = format!("{}.{more}.{}", parts[0], parts[2]);
    assert_eq!(refusal(&changed, &keys, RS256), JwtError::Signature);
}

#[test]
fn only_the_key_that_is_named_exactly_verifies_a_token() {
    let set = format!(
        r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"one","x":"{}"}}]}}"#,
        ed25519_x()
    );
    let keys = protocol_access::jwks::parse(set.as_bytes()).expect("a key set");
    let accepted = [SigningAlgorithm::EdDsa];
    let good = signed(SigningAlgorithm::EdDsa, Some("one"));
    let jwt = UnverifiedJwt::parse(&good).expect("a token");
    jwt.signed_by(&keys, &accepted).expect("the named key");
    for kid in [
        "One",
        "one ",
        "../one",
        "two",
        "",
        "/dev/null",
        "one' OR 1=1",
    ] {
        let error = refusal(
            &signed(SigningAlgorithm::EdDsa, Some(kid)),
            &keys,
            &accepted,
        );
        assert_eq!(error, JwtError::UnknownKey(kid.to_owned()));
    }
}

/// The public key behind the fixed part of its SubjectPublicKeyInfo.
fn ed25519_x() -> String {
    use base64::Engine as _;
    let body: String = super::keys::ED25519_PUBLIC
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body);
    encoded(&der.expect("base64")[12..])
}

#[test]
fn key_in_the_header_of_a_token_is_not_used() {
    let header = json!({"alg": "EdDSA", "jwk": {"kty": "OKP", "crv": "Ed25519",
        "x": ed25519_x()}, "jku": "https://evil.example/keys", "x5u": "https://evil.example"});
    let (header, good) = (
        encoded(header.to_string()),
        signed(SigningAlgorithm::EdDsa, None),
    );
    let behind = good.split_once('.').expect("three parts").1;
    let token = format!("{header}.{behind}");
    let error = refusal(&token, &[public(RSA_PUBLIC)], &[SigningAlgorithm::EdDsa]);
    assert_eq!(error, JwtError::NoKey(SigningAlgorithm::EdDsa));
}

#[test]
fn repeated_claims_and_header_members_are_refused() {
    let good = encoded(r#"{"alg":"RS256"}"#);
    let repeated = encoded(r#"{"sub":"robot","exp":1,"sub":"admin"}"#);
    let deep = encoded(r#"{"realm":{"role":"user","r\u006fle":"admin"}}"#);
    let twice = encoded(r#"{"alg":"none","alg":"RS256"}"#);
    for (header, payload) in [(&good, &repeated), (&good, &deep), (&twice, &encoded("{}"))] {
        let token = format!("{header}.{payload}.AAAA");
        let error = UnverifiedJwt::parse(&token);
        assert!(matches!(error, Err(JwtError::Json { .. })), "{error:?}");
    }
}

#[test]
fn text_that_is_not_strict_base64url_in_three_parts_is_refused() {
    let (header, payload) = (encoded(r#"{"alg":"RS256"}"#), encoded("{}"));
    for token in [
        String::new(),
        "..".to_owned(),
        header.clone(),
        format!("{header}.{payload}"),
        format!("{header}.{payload}."),
        format!("{header}.{payload}.AAAA.AAAA"),
        format!("{header}.{payload}.AAAA="),
        format!("{header}.{payload}.AAA\n"),
        format!("{header}.{payload}.A+/A"),
        format!("{header}=.{payload}.AAAA"),
        format!(" {header}.{payload}.AAAA"),
        // Bits behind the last byte: two texts would be one signature.
        format!("{header}.{payload}.AB"),
        format!("{}.{payload}.AAAA", encoded("[]")),
        format!("{}.{payload}.AAAA", encoded(r#"{"alg":1}"#)),
        format!("{}.{payload}.AAAA", encoded(r#"{"alg":"RS256","kid":1}"#)),
        format!(
            "{}.{payload}.AAAA",
            encoded(r#"{"alg":"RS256","crit":["x"]}"#)
        ),
        format!("{header}.{}.AAAA", encoded(vec![b'['; 5_000])),
    ] {
        UnverifiedJwt::parse(&token).expect_err(&token);
    }
}

#[test]
fn token_beyond_the_limit_is_refused_by_its_length_alone() {
    let token = "x".repeat(1024 * 1024);
    let error = UnverifiedJwt::parse(&token).expect_err("a long text");
    assert_eq!(error, JwtError::TooLong(token.len()));
    assert!(error.to_string().contains(&JWT_BYTES_MAX.to_string()));
}

proptest::proptest! {
    #[test]
    fn changed_byte_of_a_token_is_never_accepted(at in 0_usize..400, to in "[A-Za-z0-9_.=-]") {
        let token = signed(SigningAlgorithm::EdDsa, None);
        let at = at % token.len();
        let mut changed = token.clone();
        changed.replace_range(at..=at, &to);
        if changed != token {
            let keys = [public(pair(SigningAlgorithm::EdDsa).1)];
            let read = UnverifiedJwt::parse(&changed)
                .and_then(|jwt| jwt.signed_by(&keys, &[SigningAlgorithm::EdDsa]));
            proptest::prop_assert!(read.is_err());
        }
    }
}
