//! Every misdeed of a provider fails the login, in time and with the provider's name (threats 16
//! and 17).

use std::time::Duration;

use controlplane_server::login::{Fault, LoginError, Logins};
use hack_testkit::{CLIENT_SECRET, Misdeed};

use super::setup::{begin, config, jwt, log_in, method, now, oidc, provider, rules, token};

/// A login that waits for a provider ends after this time here.
const TIME_MAX: Duration = Duration::from_secs(2);
/// The test's own patience, in case that it does not.
const PATIENCE: Duration = Duration::from_secs(60);

const OF_THE_PROTOCOL: [Misdeed; 8] = [
    Misdeed::Stalls,
    Misdeed::Trickles,
    Misdeed::Redirects,
    Misdeed::EndsEarly,
    Misdeed::ClaimsMuch,
    Misdeed::SendsMuch,
    Misdeed::Fails,
    Misdeed::Babbles,
];

fn assert_provider_is_named(error: &LoginError, issuer: &str, case: &str) {
    let words = error.to_string();
    assert_eq!(error.fault(), Fault::Provider, "{case}: {words}");
    assert!(
        words.contains("\"sso\"") && words.contains(issuer),
        "{case}: {words}"
    );
    assert!(!words.contains(CLIENT_SECRET), "{case}: {words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn key_set_that_cannot_be_fetched_fails_the_login_by_name() {
    let cases = OF_THE_PROTOCOL.map(|misdeed| async move {
        let (provider, logins) = (provider(), Logins::new(TIME_MAX));
        let token = token(&provider);
        provider.misbehave("/keys", misdeed);
        let made = logins.jwt(&jwt(&provider), &token, &rules(), now()).await;
        assert_provider_is_named(&made.expect_err("refused"), &provider.issuer(), "keys");
        assert_eq!(
            provider.requests("/moved/keys"),
            0,
            "no redirect is followed"
        );
        // The failure is not kept.
        provider.behave();
        let made = logins.jwt(&jwt(&provider), &token, &rules(), now()).await;
        made.expect("the provider behaves");
    });
    let all = futures::future::join_all(cases.map(tokio::spawn));
    let all = tokio::time::timeout(PATIENCE, all).await.expect("in time");
    all.into_iter().for_each(|case| case.expect("a refusal"));
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_cannot_be_fetched_fail_the_login_by_name() {
    let paths = ["/.well-known/openid-configuration", "/token", "/me"];
    let cases = paths
        .into_iter()
        .flat_map(|path| OF_THE_PROTOCOL.map(|misdeed| (path, misdeed)));
    let cases = cases.map(|(path, misdeed)| async move {
        let (provider, logins) = (provider(), Logins::new(TIME_MAX));
        let method = oidc(&provider);
        provider.misbehave(path, misdeed);
        let made = log_in(&logins, &method, &provider).await;
        let case = format!("{path} {misdeed:?}");
        assert_provider_is_named(&made.expect_err(&case), &provider.issuer(), &case);
    });
    let all = futures::future::join_all(cases.map(tokio::spawn));
    let all = tokio::time::timeout(PATIENCE, all).await.expect("in time");
    all.into_iter().for_each(|case| case.expect("a refusal"));
}

#[tokio::test]
async fn discovery_of_another_issuer_or_an_inner_address_is_refused() {
    for misdeed in [Misdeed::OtherIssuer, Misdeed::PointsInside] {
        let (provider, logins) = (provider(), Logins::default());
        provider.misbehave("/.well-known/openid-configuration", misdeed);
        let error = begin(&logins, &oidc(&provider)).await.expect_err("refused");
        assert_provider_is_named(&error, &provider.issuer(), "discovery");
    }
}

#[tokio::test]
async fn id_token_that_is_not_for_this_login_is_refused() {
    for misdeed in [
        Misdeed::OtherIssuer,
        Misdeed::OtherAudience,
        Misdeed::OtherNonce,
        Misdeed::NoNonce,
        Misdeed::OtherKey,
        Misdeed::Unsigned,
        Misdeed::Expired,
    ] {
        let (provider, logins) = (provider(), Logins::default());
        provider.misbehave("/token", misdeed);
        let made = log_in(&logins, &oidc(&provider), &provider).await;
        let error = made.expect_err(&format!("{misdeed:?}"));
        assert!(
            matches!(error, LoginError::Token(_)),
            "{misdeed:?}: {error}"
        );
    }
}

#[tokio::test]
async fn user_info_about_another_user_is_refused() {
    let (provider, logins) = (provider(), Logins::default());
    provider.misbehave("/me", Misdeed::OtherSubject);
    let made = log_in(&logins, &oidc(&provider), &provider).await;
    let error = made.expect_err("another user").to_string();
    assert!(error.contains("another subject"), "{error}");
}

#[tokio::test]
async fn provider_that_is_not_there_fails_the_login_by_name() {
    let logins = Logins::default();
    // Port 1 of loopback refuses connections.
    let config = protocol_model::AuthMethodConfig {
        jwks_url: "http://127.0.0.1:1/keys".to_owned(),
        ..config()
    };
    let method = method("JWT", config);
    let made = logins
        .jwt(&method, &token(&provider()), &rules(), now())
        .await;
    let error = made.expect_err("refused");
    assert_provider_is_named(&error, "http://127.0.0.1:1/keys", "nothing listens");
}
