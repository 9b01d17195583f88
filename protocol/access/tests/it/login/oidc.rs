//! The pure half of logins by OIDC.

use protocol_access::oidc::{
    AuthUrl, CodeExchange, Discovery, DiscoveryError, PendingError, PendingLogin, TokenAnswer,
    TokenAnswerError, nonce_digest,
};
use protocol_model::UnixNanos;
use serde_json::json;

fn pending() -> PendingLogin {
    PendingLogin {
        method: "sso".to_owned(),
        modify_index: 7,
        redirect_uri: "http://localhost:4649/oidc/callback".to_owned(),
        nonce_digest: nonce_digest("nonce"),
        verifier: Some("v".to_owned()),
        expires: UnixNanos(100),
    }
}

#[test]
fn state_opens_only_for_the_login_that_it_was_made_for() {
    let login = pending();
    let redirect = login.redirect_uri.clone();
    let check =
        |method, redirect: &str, nonce, now| login.check(method, redirect, nonce, UnixNanos(now));
    assert_eq!(check(("sso", 7), &redirect, "nonce", 99), Ok(()));
    assert_eq!(
        check(("other", 7), &redirect, "nonce", 99),
        Err(PendingError::Method)
    );
    assert_eq!(
        check(("sso", 8), &redirect, "nonce", 99),
        Err(PendingError::Changed)
    );
    assert_eq!(
        check(("sso", 7), "http://evil", "nonce", 99),
        Err(PendingError::Redirect)
    );
    assert_eq!(
        check(("sso", 7), &redirect, "Nonce", 99),
        Err(PendingError::Nonce)
    );
    assert_eq!(
        check(("sso", 7), &redirect, "nonce", 100),
        Err(PendingError::Expired)
    );
}

#[test]
fn bytes_of_a_state_are_frozen() {
    let login = PendingLogin {
        nonce_digest: [1; 32],
        ..pending()
    };
    let frozen = include_bytes!("../../frozen/pending_login_1.json");
    let text = String::from_utf8(login.to_bytes()).expect("JSON");
    assert_eq!(text.as_bytes(), frozen.trim_ascii_end(), "{text}");
    assert_eq!(PendingLogin::from_bytes(frozen), Ok(login));
    for other in ["", "{}", r#"{"v":2}"#, &text.replace("\"v\":1", "\"v\":2")] {
        let read = PendingLogin::from_bytes(other.as_bytes());
        assert_eq!(read, Err(PendingError::Malformed), "{other}");
    }
}

#[test]
fn address_of_a_login_has_every_parameter_encoded() {
    let url = AuthUrl {
        endpoint: "https://id/auth?tenant=1",
        client_id: "a b",
        scopes: &["openid".to_owned(), "groups".to_owned()],
        redirect_uri: "http://localhost:4649/oidc/callback",
        state: "1.x&y",
        nonce: "n",
        // RFC 7636, appendix B.
        verifier: Some("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
    };
    assert_eq!(
        url.build(),
        "https://id/auth?tenant=1&client_id=a%20b&nonce=n&redirect_uri=http%3A%2F%2Flocalhost\
         %3A4649%2Foidc%2Fcallback&response_type=code&scope=openid%20groups&state=1.x%26y\
         &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
    );
}

#[test]
fn exchange_names_the_client_in_the_header_or_in_the_body() {
    let mut exchange = CodeExchange {
        code: "c&d",
        redirect_uri: "http://r",
        verifier: Some("v"),
        client_id: "id",
        client_secret: "s:t",
    };
    assert_eq!(
        exchange.authorization().as_deref(),
        Some("Basic aWQ6cyUzQXQ=")
    );
    assert!(!exchange.body().contains("client_id"));
    exchange.client_secret = "";
    assert_eq!(exchange.authorization(), None);
    assert_eq!(
        exchange.body(),
        "grant_type=authorization_code&code=c%26d&redirect_uri=http%3A%2F%2Fr&code_verifier=v\
         &client_id=id"
    );
}

#[test]
fn discovery_of_another_issuer_or_with_bad_addresses_is_refused() {
    let document = |issuer: &str, jwks: &str, token: &str| {
        json!({"issuer": issuer, "jwks_uri": jwks, "token_endpoint": token}).to_string()
    };
    let good = document("https://id/", "https://id/k", "https://id/t");
    let read = Discovery::parse(good.as_bytes(), "https://id").expect("a document");
    assert_eq!(read.issuer, "https://id/");
    assert_eq!(
        Discovery::url_of("https://id/"),
        "https://id/.well-known/openid-configuration"
    );
    let other = document("https://evil", "https://id/k", "https://id/t");
    let error = Discovery::parse(other.as_bytes(), "https://id");
    assert!(
        matches!(error, Err(DiscoveryError::Issuer { .. })),
        "{error:?}"
    );
    for (jwks, token) in [
        ("http://169.254.169.254/k", "https://id/t"),
        ("https://id/k", "file:///etc/passwd"),
    ] {
        let bad = document("https://id", jwks, token);
        let error = Discovery::parse(bad.as_bytes(), "https://id");
        assert!(
            matches!(error, Err(DiscoveryError::Url { .. })),
            "{error:?}"
        );
    }
    for text in ["", "[]", "{}", r#"{"issuer":1,"jwks_uri":"x"}"#] {
        Discovery::parse(text.as_bytes(), "https://id").expect_err(text);
    }
}

#[test]
fn answers_of_a_token_endpoint_are_read_or_refused() {
    let good = TokenAnswer::parse(200, br#"{"id_token":"t","access_token":"a"}"#).expect("both");
    assert_eq!(
        (good.id_token.as_str(), good.access_token.as_str()),
        ("t", "a")
    );
    assert!(!format!("{good:?}").contains("\"t\""));
    let refused = TokenAnswer::parse(
        400,
        b"{\"error\":\"invalid_grant\",\"error_description\":\"used\\nup\"}",
    );
    assert_eq!(
        refused,
        Err(TokenAnswerError::Refused(
            "invalid_grant: usedup".to_owned()
        ))
    );
    assert_eq!(
        TokenAnswer::parse(200, b"{}"),
        Err(TokenAnswerError::NoIdToken)
    );
    for (status, body) in [(500, &b"{\"id_token\":\"t\"}"[..]), (200, b"<html>")] {
        assert_eq!(
            TokenAnswer::parse(status, body),
            Err(TokenAnswerError::Malformed { status })
        );
    }
}
