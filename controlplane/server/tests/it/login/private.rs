//! A provider over https with a certificate of a private authority and an RSA key.

use controlplane_server::login::{Fault, LoginError, Logins, UsableMethod};
use hack_testkit::{CLIENT_ID, Provider};
use protocol_model::{AuthMethodConfig, SecretText};
use serde_json::json;

use super::setup::{REDIRECT, config, log_in, method, now, rules, token};

fn provider() -> Provider {
    Provider::start_private(json!({"team": "Ops", "groups": ["dev"]}))
}

fn rsa() -> AuthMethodConfig {
    AuthMethodConfig {
        signing_algs: vec!["RS256".to_owned()],
        ..config()
    }
}

/// A method that reads the keys of `provider`, which is trusted by this authority.
fn jwt(provider: &Provider, authority: &str) -> UsableMethod {
    let config = AuthMethodConfig {
        jwks_url: provider.jwks_url(),
        jwks_ca_cert: authority.to_owned(),
        bound_audiences: vec![CLIENT_ID.to_owned()],
        ..rsa()
    };
    method("JWT", config)
}

/// The same with logins in a browser.
fn oidc(provider: &Provider, authorities: &[&str]) -> UsableMethod {
    let config = AuthMethodConfig {
        oidc_discovery_url: provider.issuer(),
        oidc_client_id: CLIENT_ID.to_owned(),
        oidc_client_secret: SecretText::new("redacted"),
        allowed_redirect_uris: vec![REDIRECT.to_owned()],
        discovery_ca_pem: authorities.iter().map(|&pem| pem.to_owned()).collect(),
        ..rsa()
    };
    method("OIDC", config)
}

#[tokio::test]
async fn provider_of_a_private_authority_is_trusted_by_the_method_alone() {
    let (logins, provider, other) = (Logins::default(), provider(), self::provider());
    assert!(provider.issuer().starts_with("https://"));
    let own = provider.authority();
    let made = logins
        .jwt(&jwt(&provider, own), &token(&provider), &rules(), now())
        .await;
    made.expect("the authority is known");
    let both = oidc(&provider, &[other.authority(), own]);
    let made = log_in(&logins, &both, &provider).await;
    made.expect("one of the authorities is the provider's");

    let refused = |error: LoginError| {
        let words = error.to_string();
        assert_eq!(error.fault(), Fault::Provider, "{words}");
        assert!(
            words.contains("TLS") && words.contains(&provider.issuer()),
            "{words}"
        );
    };
    for authority in ["", other.authority()] {
        let method = jwt(&provider, authority);
        // Documents that were fetched for another method are not used for this one.
        let logins = Logins::default();
        let made = logins
            .jwt(&method, &token(&provider), &rules(), now())
            .await;
        refused(made.expect_err("the authority is not known"));
    }
    for authorities in [[].as_slice(), &[other.authority()]] {
        let logins = Logins::default();
        let begun = super::setup::begin(&logins, &oidc(&provider, authorities)).await;
        refused(begun.expect_err("the authority is not known"));
    }
}

#[tokio::test]
async fn token_of_another_rsa_key_is_refused() {
    let (logins, provider, other) = (Logins::default(), provider(), self::provider());
    let method = jwt(&provider, provider.authority());
    let made = logins.jwt(&method, &token(&other), &rules(), now()).await;
    let error = made.expect_err("both keys have the same name");
    assert_eq!(error.fault(), Fault::Credential, "{error}");
}
