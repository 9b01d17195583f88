//! The life of root keys behind the first: activation, rekeying, removal by use.

use controlplane_state::command::{
    KeyRemoval, REKEY_VALUES_MAX, Resealed, RootKeyChange, TokensRekey,
};
use controlplane_state::{SealedCounts, Table};

use super::*;

/// A cluster with root key 1, which is active.
fn keyed() -> Harness {
    let mut cluster = Harness::new();
    cluster.done(upsert(1, None, Rotation::Plain).into());
    cluster
}

fn upsert(number: u128, replaces: Option<u32>, rotation: Rotation) -> RootKeyUpsert {
    RootKeyUpsert {
        key: root_key(number),
        replaces,
        rotation,
    }
}

fn prepublish(cluster: &mut Harness, number: u128, publish_time: UnixNanos) {
    let mut prepublished = upsert(number, Some(1), Rotation::Plain);
    prepublished.key.state = RootKeyState::Prepublished;
    prepublished.key.publish_time = publish_time;
    cluster.done(prepublished.into());
}

fn remove(number: u32, rule: KeyRemoval) -> RootKeyChange {
    RootKeyChange::Remove { number, rule }
}

fn state(cluster: &Harness, number: u32) -> Option<RootKeyState> {
    let key = cluster.tables().root_key(number);
    key.map(|key| key.state)
}

/// A token and an auth method with secrets that are sealed with key 1.
fn with_secrets(cluster: &mut Harness) {
    create(
        cluster,
        AclToken {
            sealed: Some(sealed(1)),
            ..token(1)
        },
    );
    let methods = vec![AclAuthMethod {
        sealed: Some(sealed(1)),
        ..method("ci")
    }];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
}

fn resealed(name: &str) -> Resealed {
    Resealed {
        name: name.to_owned(),
        key: 1,
        nonce: sealed(1).nonce,
        sealed: Sealed {
            nonce: [3; 12],
            ..sealed(2)
        },
    }
}

fn rekey() -> TokensRekey {
    TokensRekey {
        tokens: vec![resealed("accessor-1")],
        methods: vec![resealed("ci")],
    }
}

#[test]
fn a_prepublished_key_is_active_from_its_publish_time_on() {
    let mut cluster = keyed();
    let now = cluster.tables().now();
    prepublish(&mut cluster, 2, UnixNanos(now.0 + 3_600_000_000_000));
    let early = refused(&mut cluster, RootKeyChange::Activate { number: 2 });
    assert_eq!(early, AccessRefusal::RootKeyTooEarly(Uuid::from_u128(2)));
    prepublish(&mut cluster, 3, now);
    cluster.done(RootKeyChange::Activate { number: 3 }.into());
    assert_eq!(state(&cluster, 1), Some(RootKeyState::Inactive));
    assert_eq!(state(&cluster, 3), Some(RootKeyState::Active));
    let key = cluster.tables().root_key(1).expect("the key");
    assert_eq!(key.state_time, cluster.tables().now());
    let again = refused(&mut cluster, RootKeyChange::Activate { number: 3 });
    assert!(matches!(again, AccessRefusal::RootKeyState { .. }));
}

#[test]
fn the_first_root_key_is_never_prepublished() {
    let mut cluster = Harness::new();
    let mut first = upsert(1, None, Rotation::Plain);
    first.key.state = RootKeyState::Prepublished;
    let applied = cluster.apply(first.into());
    assert!(matches!(applied.outcome, Outcome::Refused(_)));
}

#[test]
fn secrets_move_to_the_active_key_without_any_index() {
    let mut cluster = keyed();
    with_secrets(&mut cluster);
    cluster.done(upsert(2, Some(1), Rotation::Plain).into());
    let tables = [Table::AclTokens, Table::AclAuthMethods];
    let before = cluster.tables().table_index(&tables);
    let rekeyed = cluster.done(rekey().into());
    assert_eq!(rekeyed.signals, [], "no right changed");
    assert_eq!(cluster.tables().table_index(&tables), before);
    let token = cluster.tables().acl_token("accessor-1").expect("a token");
    assert_eq!(token.sealed, Some(resealed("").sealed));
    assert_eq!(token.modify_index, token.create_index);
    assert!(cluster.tables().sealed_with(1).is_empty());
    let counts = SealedCounts {
        tokens: 1,
        methods: 1,
        variables: 0,
    };
    assert_eq!(cluster.tables().sealed_with(2), counts);
    assert_eq!(cluster.tables().root_key(2).map(|key| key.seals), Some(2));
    let again = cluster.apply(rekey().into());
    assert_eq!(again.outcome, Outcome::NoOp, "the seals are others by now");
}

#[test]
fn a_secret_that_was_written_since_is_left_as_it_is() {
    let mut cluster = keyed();
    with_secrets(&mut cluster);
    cluster.done(upsert(2, Some(1), Rotation::Plain).into());
    let newer = Sealed {
        nonce: [8; 12],
        ..sealed(1)
    };
    let methods = vec![AclAuthMethod {
        sealed: Some(newer.clone()),
        ..method("ci")
    }];
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    let accessors = vec!["accessor-1".to_owned()];
    cluster.done(AclTokens::Delete { accessors }.into());
    assert_eq!(cluster.apply(rekey().into()).outcome, Outcome::NoOp);
    let method = cluster.tables().auth_method("ci").expect("a method");
    assert_eq!(method.sealed, Some(newer));
    assert!(cluster.tables().acl_token("accessor-1").is_none());
}

#[test]
fn a_rekey_with_a_key_that_is_gone_or_too_many_values_is_refused() {
    let mut cluster = keyed();
    with_secrets(&mut cluster);
    let gone = refused(&mut cluster, rekey());
    assert_eq!(gone, AccessRefusal::SealingKeyGone(2));
    let found = REKEY_VALUES_MAX + 1;
    let many = TokensRekey {
        tokens: vec![resealed("a"); found],
        methods: Vec::new(),
    };
    let max = REKEY_VALUES_MAX;
    let too_many = AccessRefusal::TooManyRows { found, max };
    assert_eq!(refused(&mut cluster, many), too_many);
}

#[test]
fn a_key_goes_only_when_it_is_not_active_and_seals_nothing() {
    let mut cluster = keyed();
    with_secrets(&mut cluster);
    for rule in [KeyRemoval::Unused, KeyRemoval::Forced] {
        let active = refused(&mut cluster, remove(1, rule));
        assert_eq!(active, AccessRefusal::RootKeyActive);
    }
    cluster.done(upsert(2, Some(1), Rotation::Plain).into());
    let in_use = refused(&mut cluster, remove(1, KeyRemoval::Unused));
    assert_eq!(in_use, AccessRefusal::RootKeyInUse);
    let forced = refused(&mut cluster, remove(1, KeyRemoval::Forced));
    assert!(
        forced.to_string().contains(
            "seals 0 variables, 1 secrets of tokens and 1 of auth methods: rotate with -full first"
        ),
        "{forced}"
    );
    cluster.done(rekey().into());
    let removed = cluster.done(remove(1, KeyRemoval::Unused).into());
    assert_eq!(removed.signals, [Signal::RootKeysChanged]);
    assert_eq!(state(&cluster, 1), None);
    let gone = refused(&mut cluster, remove(1, KeyRemoval::Unused));
    assert_eq!(gone, AccessRefusal::RootKeyNotFound(1));
    cluster.done(upsert(3, Some(2), Rotation::Plain).into());
    assert_eq!(state(&cluster, 3), Some(RootKeyState::Active));
}

#[test]
fn a_full_rotation_ends_when_nothing_is_left() {
    let mut cluster = keyed();
    cluster.done(upsert(2, Some(1), Rotation::Full).into());
    assert_eq!(state(&cluster, 1), Some(RootKeyState::Rekeying));
    cluster.done(RootKeyChange::EndRekey { number: 1 }.into());
    assert_eq!(state(&cluster, 1), Some(RootKeyState::Inactive));
    let again = refused(&mut cluster, RootKeyChange::EndRekey { number: 1 });
    assert!(matches!(again, AccessRefusal::RootKeyState { .. }));
}

#[test]
fn a_key_is_wrapped_anew_once() {
    let mut cluster = keyed();
    let rewrap = RootKeyChange::Rewrap {
        number: 1,
        before: [7; 8],
        kek_id: [8; 8],
        wrapped: vec![9; 40],
    };
    cluster.done(rewrap.clone().into());
    let key = cluster.tables().root_key(1).expect("the key");
    assert_eq!((key.kek_id, key.wrapped.len()), ([8; 8], 40));
    assert_eq!(key.state, RootKeyState::Active);
    let again = refused(&mut cluster, rewrap);
    let id = Uuid::from_u128(1);
    assert_eq!(again, AccessRefusal::RootKeyRewrapped(id));
}
