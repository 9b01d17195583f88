//! One-time tokens.

use std::time::Duration;

use super::*;

#[test]
fn second_exchange_of_a_one_time_token_is_refused() {
    let mut cluster = filled();
    let accessor_id = "accessor-1".to_owned();
    let exchanged = cluster.apply(exchange(1)).outcome;
    assert_eq!(exchanged, Outcome::OneTimeTokenExchanged { accessor_id });
    let refusal = refused(&mut cluster, exchange(1));
    assert_eq!(refusal, AccessRefusal::OneTimeTokenInvalid);
    assert_eq!(refusal.to_string(), "Permission denied");
}

#[test]
fn an_expired_token_is_not_exchanged() {
    let mut cluster = filled();
    let made = cluster
        .tables()
        .one_time_token(&Digest([1; 32]))
        .expect("it");
    assert_eq!(
        made.expires,
        cluster.now.saturating_add(Duration::from_secs(600))
    );
    // The next entry is a second later: one before the end, then at the end.
    cluster.pass(Duration::from_secs(597));
    cluster.done(make_one_time(2, "accessor-2"));
    let expire = || -> Command {
        let digests = vec![Digest([1; 32]), Digest([2; 32]), Digest([3; 32])];
        OneTimeTokens::Expire { digests }.into()
    };
    assert_eq!(cluster.done(expire()).outcome, Outcome::NoOp);
    let refusal = refused(&mut cluster, exchange(1));
    assert_eq!(refusal, AccessRefusal::OneTimeTokenInvalid);
    let removed = cluster.done(expire());
    assert_eq!(removed.signals, [Signal::OneTimeTokensChanged]);
    assert!(cluster.tables().one_time_token(&Digest([1; 32])).is_none());
    assert!(cluster.tables().one_time_token(&Digest([2; 32])).is_some());
}

#[test]
fn a_one_time_token_of_a_deleted_or_expired_token_is_refused() {
    let mut cluster = filled();
    let accessors = names(["accessor-1"]);
    cluster.done(AclTokens::Delete { accessors }.into());
    assert_eq!(
        refused(&mut cluster, exchange(1)),
        AccessRefusal::OneTimeTokenInvalid
    );
    let unknown = AccessRefusal::UnknownToken("accessor-1".to_owned());
    assert_eq!(
        refused(&mut cluster, make_one_time(2, "accessor-1")),
        unknown
    );
    // The other token expires an hour after its creation.
    cluster.pass(Duration::from_secs(3580));
    cluster.done(make_one_time(3, "accessor-2"));
    cluster.pass(Duration::from_secs(60));
    assert_eq!(
        refused(&mut cluster, exchange(3)),
        AccessRefusal::OneTimeTokenInvalid
    );
}

#[test]
fn a_token_has_one_one_time_token_at_a_time() {
    let mut cluster = filled();
    cluster.done(make_one_time(2, "accessor-1"));
    assert_eq!(
        refused(&mut cluster, exchange(1)),
        AccessRefusal::OneTimeTokenInvalid
    );
    let in_use = AccessRefusal::SecretInUse("accessor-2".to_owned());
    assert_eq!(
        refused(&mut cluster, make_one_time(2, "accessor-2")),
        in_use
    );
    cluster.done(exchange(2));
}
