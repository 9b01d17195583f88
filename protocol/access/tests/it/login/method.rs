//! Auth methods: which are stored, their secrets, the names of their tokens.

use std::time::Duration;

use protocol_access::claims::MappedClaims;
use protocol_access::jwt::SigningAlgorithm;
use protocol_access::method::{
    MethodSecrets, MethodSecretsError, TokenLifetimes, check_auth_method, signing_algorithms,
    token_name,
};
use protocol_model::{
    AuthMethod, AuthMethodConfig, OidcClientAssertion, OidcClientAssertionKey, SecretText,
};

use super::keys::{RSA, RSA_CERTIFICATE, RSA_PUBLIC};

const LIFETIMES: TokenLifetimes = TokenLifetimes {
    min: Duration::from_secs(60),
    max: Duration::from_secs(24 * 3600),
};

fn method(kind: &str, config: Option<AuthMethodConfig>) -> AuthMethod {
    AuthMethod {
        name: "ci".to_owned(),
        kind: kind.to_owned(),
        token_locality: "local".to_owned(),
        max_token_ttl: Duration::from_secs(600),
        config,
        ..AuthMethod::default()
    }
}

fn jwt() -> AuthMethodConfig {
    AuthMethodConfig {
        jwt_validation_pub_keys: vec![RSA_PUBLIC.to_owned(), RSA_CERTIFICATE.to_owned()],
        ..AuthMethodConfig::default()
    }
}

fn oidc() -> AuthMethodConfig {
    AuthMethodConfig {
        oidc_discovery_url: "http://127.0.0.1:8080".to_owned(),
        oidc_client_id: "drover".to_owned(),
        oidc_client_secret: SecretText::new("planted"),
        allowed_redirect_uris: vec!["http://localhost:4649/oidc/callback".to_owned()],
        ..AuthMethodConfig::default()
    }
}

fn faults(method: &AuthMethod) -> String {
    let faults = check_auth_method(method, LIFETIMES);
    faults
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn methods_with_and_without_config_are_stored() {
    for good in [
        method("JWT", None),
        method("OIDC", None),
        method("JWT", Some(jwt())),
        method("OIDC", Some(oidc())),
    ] {
        assert_eq!(faults(&good), "");
    }
}

#[test]
fn faults_of_a_method_are_named_in_the_known_words() {
    let change = |change: fn(&mut AuthMethod)| {
        let mut changed = method("JWT", Some(jwt()));
        change(&mut changed);
        changed
    };
    for (method, words) in [
        (change(|m| m.name = "a b".to_owned()), "invalid name 'a b'"),
        (
            change(|m| m.token_locality = "moon".to_owned()),
            "invalid token locality 'moon'",
        ),
        (
            change(|m| m.kind = "SAML".to_owned()),
            "invalid token type 'SAML'",
        ),
        (
            change(|m| m.max_token_ttl = Duration::from_secs(30)),
            "invalid MaxTokenTTL value '30s' (should be between 1m0s and 24h0m0s)",
        ),
        (
            change(|m| m.max_token_ttl = Duration::from_secs(86_401)),
            "invalid MaxTokenTTL value '24h0m1s' (should be between 1m0s and 24h0m0s)",
        ),
        (
            change(|m| m.token_name_format = "${x}".to_owned()),
            "invalid TokenNameFormat: ${x}",
        ),
    ] {
        let shown = faults(&method);
        assert!(shown.starts_with(words), "{words}: {shown}");
    }
}

#[test]
fn configurations_that_cannot_work_are_refused_by_field() {
    let jwt = |change: fn(&mut AuthMethodConfig)| {
        let mut config = jwt();
        change(&mut config);
        method("JWT", Some(config))
    };
    let oidc = |change: fn(&mut AuthMethodConfig)| {
        let mut config = oidc();
        change(&mut config);
        method("OIDC", Some(config))
    };
    for (method, words) in [
        (
            jwt(|c| c.jwt_validation_pub_keys.clear()),
            "is needed, found 0",
        ),
        (
            jwt(|c| c.jwks_url = "https://x/k".to_owned()),
            "is needed, found 2",
        ),
        (
            jwt(|c| c.jwt_validation_pub_keys[1] = RSA.to_owned()),
            "[1]: a private key",
        ),
        (
            jwt(|c| c.jwt_validation_pub_keys[0] = "x".to_owned()),
            "[0]: not a public key",
        ),
        (
            jwt(|c| c.signing_algs = vec!["HS256".to_owned()]),
            "\"HS256\" is not one of RS256",
        ),
        (
            jwt(|c| c.signing_algs = vec!["none".to_owned()]),
            "\"none\" is not one of",
        ),
        (
            jwt(|c| c.bound_audiences = vec!["x".repeat(2049)]),
            "an entry of BoundAudiences",
        ),
        (
            jwt(|c| c.bound_issuer = vec![String::new(); 65]),
            "BoundIssuer has 65 entries",
        ),
        (
            oidc(|c| c.oidc_discovery_url = "http://id.example".to_owned()),
            "OIDCDiscoveryURL: ",
        ),
        (
            oidc(|c| c.oidc_client_id.clear()),
            "OIDCClientID is missing",
        ),
        (
            oidc(|c| c.allowed_redirect_uris.clear()),
            "AllowedRedirectURIs is missing",
        ),
        (
            oidc(|c| c.discovery_ca_pem = vec!["x".to_owned()]),
            "DiscoveryCaPem holds a text",
        ),
        (
            oidc(|c| c.oidc_client_assertion = Some(OidcClientAssertion::default())),
            "Assertion",
        ),
    ] {
        let shown = faults(&method);
        assert!(shown.contains(words), "{words}: {shown}");
        assert!(!shown.contains("; "), "one fault: {shown}");
    }
}

#[test]
fn method_without_algorithms_accepts_rs256_alone() {
    assert_eq!(signing_algorithms(&jwt()), [SigningAlgorithm::Rs256]);
}

#[test]
fn secrets_are_taken_out_and_redacted_keeps_them() {
    let mut config = oidc();
    config.oidc_client_assertion = Some(OidcClientAssertion {
        private_key: Some(OidcClientAssertionKey {
            pem_key: SecretText::new("planted too"),
            ..OidcClientAssertionKey::default()
        }),
        ..OidcClientAssertion::default()
    });
    let written = config.clone();
    let secrets = MethodSecrets::take(&mut config);
    let shown = serde_json::to_string(&config).expect("JSON");
    assert!(
        !shown.contains("planted") && shown.contains("redacted"),
        "{shown}"
    );
    assert!(!format!("{secrets:?}").contains("planted"));

    let opened = MethodSecrets::from_bytes(&secrets.to_bytes()).expect("the same bytes");
    opened.put_back(&mut config).expect("both are there");
    assert_eq!(config, written);
    // A new secret stays, an emptied one is gone.
    config.oidc_client_secret = SecretText::new("new");
    opened.put_back(&mut config).expect("nothing to put back");
    assert_eq!(config.oidc_client_secret.reveal(), "new");
    config.oidc_client_secret = SecretText::new("redacted");
    let error = MethodSecrets::default().put_back(&mut config);
    assert_eq!(
        error,
        Err(MethodSecretsError::NothingStored("OIDCClientSecret"))
    );
}

#[test]
fn sealed_bytes_of_secrets_are_frozen() {
    let secrets = MethodSecrets {
        client_secret: SecretText::new("a"),
        assertion_key: SecretText::new("b"),
    };
    let frozen = br#"{"version":1,"client_secret":"a","assertion_key":"b"}"#;
    assert_eq!(secrets.to_bytes(), frozen);
    assert_eq!(MethodSecrets::from_bytes(frozen), Ok(secrets));
    for other in ["", "{}", r#"{"version":2}"#, r#"{"version":1,"x":1}"#] {
        MethodSecrets::from_bytes(other.as_bytes()).expect_err(other);
    }
}

#[test]
fn token_is_named_by_the_format_of_its_method() {
    let claims = MappedClaims {
        value: [("user".to_owned(), "Eve ${x}".to_owned())].into(),
        ..MappedClaims::default()
    };
    let mut method = method("JWT", None);
    assert_eq!(token_name(&method, &claims).as_deref(), Ok("JWT-ci"));
    method.token_name_format = "$${x}-${value.user}-${auth_method_name}".to_owned();
    assert_eq!(
        token_name(&method, &claims).as_deref(),
        Ok("${x}-Eve ${x}-ci")
    );
    method.token_name_format = "${value.missing}".to_owned();
    token_name(&method, &claims).expect_err("the claim is not there");
}
