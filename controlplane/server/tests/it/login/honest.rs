//! Logins that succeed, and requests that are refused although the provider is honest.

use std::time::Duration;

use controlplane_server::login::{Complete, Fault, Issued, LoginError, Logins, Rights};
use hack_testkit::{CLIENT_ID, now_s};
use protocol_access::oidc::PendingLogin;
use serde_json::json;

use super::setup::{
    NONCE, REDIRECT, Rules, begin, jwt, log_in, now, oidc, provider, rule, rules, token,
};

fn issued(name: &str) -> Issued {
    Issued {
        name: name.to_owned(),
        rights: Rights::Client {
            policies: vec!["readers".to_owned()],
            roles: vec!["id of team-ops".to_owned()],
        },
        global: false,
        ttl: Duration::from_secs(600),
    }
}

#[tokio::test]
async fn signed_token_yields_the_rights_of_the_rules_that_match() {
    let (provider, logins) = (provider(), Logins::default());
    let method = jwt(&provider);
    for _ in 0..3 {
        let made = logins
            .jwt(&method, &token(&provider), &rules(), now())
            .await;
        assert_eq!(made, Ok(issued("JWT-sso")));
    }
    assert_eq!(provider.requests("/keys"), 1, "keys are kept");
}

#[tokio::test]
async fn login_that_nothing_is_bound_for_is_refused() {
    let (provider, logins) = (provider(), Logins::default());
    let method = jwt(&provider);
    for rules in [
        Rules::default(),
        Rules(vec![rule("other in list.groups", "management", "")]),
        Rules(vec![
            rule("", "policy", "absent"),
            rule("", "role", "absent"),
        ]),
    ] {
        let made = logins.jwt(&method, &token(&provider), &rules, now()).await;
        assert_eq!(made, Err(LoginError::NothingBound));
    }
    let root = Rules(vec![rule("value.team == Ops", "management", "")]);
    let made = logins.jwt(&method, &token(&provider), &root, now()).await;
    assert_eq!(made.expect("a token").rights, Rights::Management);
}

#[tokio::test]
async fn token_that_the_method_does_not_accept_is_refused_as_401() {
    let (provider, logins) = (provider(), Logins::default());
    let method = jwt(&provider);
    let foreign = provider.token(json!({"aud": "other", "exp": now_s() + 60}));
    let expired = provider.token(json!({"aud": CLIENT_ID, "exp": now_s() - 3600}));
    for token in [foreign, expired, "x".repeat(1 << 20), "a.b.c".to_owned()] {
        let made = logins.jwt(&method, &token, &rules(), now()).await;
        let error = made.expect_err("refused");
        assert_eq!(error.fault(), Fault::Credential, "{error}");
        let words = error.to_string();
        assert!(
            words.starts_with("unable to validate provided token: "),
            "{words}"
        );
    }
}

#[tokio::test]
async fn token_that_cannot_be_good_makes_no_request() {
    let (provider, logins) = (provider(), Logins::default());
    let method = jwt(&provider);
    for token in [
        "x".repeat(1 << 20),
        "eyJhbGciOiJub25lIn0.e30.".to_owned(),
        "eyJhbGciOiJIUzI1NiJ9.e30.AAAA".to_owned(),
        "eyJhbGciOiJSUzI1NiJ9.e30.AAAA".to_owned(),
        "eyJhbGciOiJFUzI1NiJ9.eyJhIjoxLCJhIjoyfQ.AAAA".to_owned(),
    ] {
        let made = logins.jwt(&method, &token, &rules(), now()).await;
        assert_eq!(made.expect_err("refused").fault(), Fault::Credential);
    }
    assert_eq!(provider.requests("/keys"), 0);
}

#[tokio::test]
async fn provider_with_new_keys_is_asked_again_once_in_ten_seconds() {
    let (provider, logins) = (provider(), Logins::default());
    let method = jwt(&provider);
    let old = token(&provider);
    provider.change_keys();
    let new = token(&provider);
    // The first fetch sees the new keys; the old one is unknown, and the pause holds.
    logins
        .jwt(&method, &new, &rules(), now())
        .await
        .expect("the new key");
    for _ in 0..5 {
        let made = logins.jwt(&method, &old, &rules(), now()).await;
        assert_eq!(
            made.expect_err("its key is gone").fault(),
            Fault::Credential
        );
    }
    assert_eq!(provider.requests("/keys"), 1);
}

#[tokio::test]
async fn user_of_a_provider_gets_the_rights_of_the_rules_that_match() {
    let (provider, logins) = (provider(), Logins::default());
    let method = oidc(&provider);
    for _ in 0..2 {
        let made = log_in(&logins, &method, &provider).await;
        assert_eq!(made, Ok(issued("OIDC-sso")));
    }
    let documents = provider.requests("/.well-known/openid-configuration");
    assert_eq!((documents, provider.requests("/keys")), (1, 1));
    assert_eq!(provider.requests("/me"), 2);
}

#[tokio::test]
async fn login_is_completed_by_a_server_that_did_not_begin_it() {
    let provider = provider();
    let method = oidc(&provider);
    let (first, second) = (Logins::default(), Logins::default());
    let url = begin(&first, &method).await.expect("an address");
    drop(first);
    let back = provider.log_in(&url);
    let pending = PendingLogin::from_bytes(back.state.as_bytes()).expect("a state");
    let complete = Complete {
        pending: &pending,
        redirect_uri: REDIRECT,
        client_nonce: NONCE,
        code: &back.code,
        issuer: &back.iss,
    };
    let made = second.complete(&method, complete, &rules(), now()).await;
    assert_eq!(made, Ok(issued("OIDC-sso")));
    // The provider's code is good once.
    let again = second.complete(&method, complete, &rules(), now()).await;
    assert!(matches!(again, Err(LoginError::Code(_))), "{again:?}");
}

/// Completions that differ from `good` in one part, each with words of its refusal.
fn bad_completions<'a>(
    good: Complete<'a>,
    [elsewhere, changed, late]: [&'a PendingLogin; 3],
) -> [(Complete<'a>, &'static str); 8] {
    [
        (
            Complete {
                client_nonce: "other",
                ..good
            },
            "another client nonce",
        ),
        (
            Complete {
                redirect_uri: "http://localhost:4649/oidc",
                ..good
            },
            "unauthorized redirect",
        ),
        (
            Complete {
                pending: elsewhere,
                ..good
            },
            "another redirect",
        ),
        (
            Complete {
                pending: changed,
                ..good
            },
            "was changed",
        ),
        (
            Complete {
                pending: late,
                ..good
            },
            "took longer",
        ),
        (Complete { code: "", ..good }, "missing code"),
        (
            Complete {
                issuer: "https://evil.example",
                ..good
            },
            "https://evil.example",
        ),
        (Complete { issuer: "", ..good }, "came from the issuer"),
    ]
}

#[tokio::test]
async fn completion_by_another_client_issuer_or_redirect_is_refused() {
    let (provider, logins) = (provider(), Logins::default());
    let method = oidc(&provider);
    let url = begin(&logins, &method).await.expect("an address");
    let back = provider.log_in(&url);
    let pending = PendingLogin::from_bytes(back.state.as_bytes()).expect("a state");
    let good = Complete {
        pending: &pending,
        redirect_uri: REDIRECT,
        client_nonce: NONCE,
        code: &back.code,
        issuer: &back.iss,
    };
    let mut elsewhere = pending.clone();
    elsewhere.redirect_uri = format!("{REDIRECT}/");
    let mut changed = pending.clone();
    changed.modify_index += 1;
    let mut late = pending.clone();
    late.expires = now();
    for (bad, words) in bad_completions(good, [&elsewhere, &changed, &late]) {
        let error = logins.complete(&method, bad, &rules(), now()).await;
        let error = error.expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    assert_eq!(
        provider.requests("/token"),
        0,
        "no code was shown to anybody"
    );
    logins
        .complete(&method, good, &rules(), now())
        .await
        .expect("the right one");
}

#[tokio::test]
async fn method_of_the_other_type_is_refused_by_name() {
    let (provider, logins) = (provider(), Logins::default());
    let made = logins
        .jwt(&oidc(&provider), &token(&provider), &rules(), now())
        .await;
    let words = made.expect_err("refused").to_string();
    assert_eq!(words, "unsupported auth-method type: OIDC");
    let error = begin(&logins, &jwt(&provider)).await.expect_err("refused");
    assert_eq!(error.to_string(), "unsupported auth-method type: JWT");
}
