//! Time, issuer and audience of verified claims.

use std::time::Duration;

use protocol_access::jwt::{ClaimError, ClaimRules};
use protocol_model::{AuthMethodConfig, Leeway};
use serde_json::{Value, json};

use super::keys::{NOW, NOW_S, object};

fn check(config: &AuthMethodConfig, claims: Value) -> Result<(), ClaimError> {
    ClaimRules::of(config).check(&object(claims), NOW)
}

#[test]
fn one_claim_about_time_is_needed() {
    let config = AuthMethodConfig::default();
    assert_eq!(check(&config, json!({"sub": "x"})), Err(ClaimError::NoTime));
    for name in ["exp", "nbf", "iat"] {
        check(&config, json!({name: NOW_S})).expect(name);
        for wrong in [json!("1800000000"), json!(null), json!([]), json!(true)] {
            let refused = check(&config, json!({name: wrong}));
            assert!(matches!(refused, Err(ClaimError::Type(..))), "{refused:?}");
        }
    }
}

#[test]
fn times_are_compared_with_the_leeway_for_clocks() {
    let config = AuthMethodConfig::default();
    for (claims, is_accepted) in [
        (json!({"exp": NOW_S - 59}), true),
        (json!({"exp": NOW_S - 60}), false),
        (json!({"exp": NOW_S + 600, "nbf": NOW_S + 60}), true),
        (json!({"exp": NOW_S + 600, "nbf": NOW_S + 61}), false),
        (
            json!({"exp": NOW_S + 600, "nbf": 0, "iat": NOW_S + 61}),
            false,
        ),
        // Derived: 150 s after the later start, and 60 s for clocks.
        (json!({"iat": NOW_S - 209}), true),
        (json!({"iat": NOW_S - 210}), false),
        (json!({"iat": NOW_S - 900, "nbf": NOW_S - 100}), true),
        (json!({"exp": NOW_S + 86_400}), true),
        (json!({"exp": 1e300, "nbf": -1e300}), true),
        (json!({"exp": i64::MIN}), false),
        (json!({"exp": u64::MAX, "iat": NOW_S}), true),
        (json!({"exp": 1800000000.5, "iat": NOW_S}), true),
    ] {
        let shown = claims.to_string();
        assert_eq!(check(&config, claims).is_ok(), is_accepted, "{shown}");
    }
}

#[test]
fn negative_leeway_means_none_and_a_positive_one_its_span() {
    let config = AuthMethodConfig {
        clock_skew_leeway: Leeway(-1),
        expiration_leeway: Leeway(10_000_000_000),
        not_before_leeway: Leeway(-1),
        ..AuthMethodConfig::default()
    };
    assert_eq!(ClaimRules::of(&config).clock_leeway, Duration::ZERO);
    check(&config, json!({"exp": NOW_S + 1, "iat": NOW_S})).expect("valid now");
    for claims in [
        json!({"exp": NOW_S, "iat": NOW_S}),
        json!({"iat": NOW_S - 10}),
        json!({"exp": NOW_S + 1, "nbf": NOW_S + 1}),
        json!({"exp": NOW_S + 1}),
    ] {
        check(&config, claims.clone()).expect_err(&claims.to_string());
    }
}

#[test]
fn issuer_and_audience_bind_where_they_are_configured() {
    let config = AuthMethodConfig {
        bound_issuer: vec!["https://a".to_owned(), "https://b".to_owned()],
        bound_audiences: vec!["drover".to_owned()],
        ..AuthMethodConfig::default()
    };
    let with = |iss: Value, aud: Value| json!({"exp": NOW_S + 60, "iss": iss, "aud": aud});
    check(&config, with(json!("https://b"), json!("drover"))).expect("both are bound");
    check(&config, with(json!("https://a"), json!(["x", "drover"]))).expect("one of the list");
    for (iss, aud) in [
        (json!("https://c"), json!("drover")),
        (json!("https://a/"), json!("drover")),
        (json!(["https://a"]), json!("drover")),
        (json!(null), json!("drover")),
        (json!("https://a"), json!("drover2")),
        (json!("https://a"), json!(["x"])),
        (json!("https://a"), json!([["drover"]])),
        (json!("https://a"), json!(["drover", 1])),
        (json!("https://a"), json!({"drover": true})),
        (json!("https://a"), json!(null)),
    ] {
        let claims = with(iss, aud);
        check(&config, claims.clone()).expect_err(&claims.to_string());
    }
    check(&config, json!({"exp": NOW_S + 60})).expect_err("neither is there");
    check(&AuthMethodConfig::default(), with(json!("x"), json!("y"))).expect("nothing is bound");
}
