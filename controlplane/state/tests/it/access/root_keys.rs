//! Root keys and what is sealed with them.

use controlplane_state::Table;

use super::*;

pub(super) fn upsert(number: u128, replaces: Option<u32>) -> RootKeyUpsert {
    let key = root_key(number);
    RootKeyUpsert {
        key,
        replaces,
        rotation: Rotation::Plain,
    }
}

fn states(cluster: &Harness) -> Vec<(u32, RootKeyState)> {
    let keys = cluster.tables().root_keys();
    keys.map(|key| (key.number, key.state)).collect()
}

#[test]
fn two_leaders_that_make_the_first_key_leave_one() {
    let mut cluster = Harness::new();
    let made = cluster.done(upsert(1, None).into());
    assert_eq!(made.signals, [Signal::RootKeysChanged]);
    let moved = AccessRefusal::RootKeyMoved {
        wanted: 0,
        found: 1,
    };
    assert_eq!(refused(&mut cluster, upsert(2, None)), moved);
    assert_eq!(states(&cluster), [(1, RootKeyState::Active)]);
}

#[test]
fn a_key_takes_the_place_of_the_one_that_it_names() {
    let mut cluster = Harness::new();
    cluster.done(upsert(1, None).into());
    let prepublished = RootKeyUpsert {
        key: RootKey {
            state: RootKeyState::Prepublished,
            ..root_key(2)
        },
        replaces: Some(1),
        rotation: Rotation::Plain,
    };
    cluster.done(prepublished.into());
    cluster.done(upsert(3, Some(1)).into());
    let wanted = [
        (1, RootKeyState::Inactive),
        (2, RootKeyState::Prepublished),
        (3, RootKeyState::Active),
    ];
    assert_eq!(states(&cluster), wanted);
    let moved = AccessRefusal::RootKeyMoved {
        wanted: 1,
        found: 3,
    };
    assert_eq!(refused(&mut cluster, upsert(4, Some(1))), moved);
    let again = AccessRefusal::RootKeyExists(Uuid::from_u128(2));
    assert_eq!(refused(&mut cluster, upsert(2, Some(3))), again);
}

#[test]
fn a_value_that_is_sealed_with_an_unknown_key_is_refused() {
    let mut cluster = Harness::new();
    let with_secret = |key, number| AclToken {
        sealed: Some(sealed(key)),
        ..token(number)
    };
    let tokens = vec![with_secret(1, 1)];
    let gone = AccessRefusal::SealingKeyGone(1);
    let refusal = refused(&mut cluster, AclTokens::Create { tokens });
    assert_eq!(refusal, gone);
    cluster.done(upsert(1, None).into());
    let made = cluster.index;
    create(&mut cluster, with_secret(1, 1));
    let methods = vec![AclAuthMethod {
        sealed: Some(sealed(1)),
        ..method("ci")
    }];
    cluster.done(
        AclAuthMethods::Upsert {
            methods: methods.clone(),
        }
        .into(),
    );
    let key = cluster.tables().root_key(1).expect("the key");
    assert_eq!((key.seals, key.modify_index), (2, made));
    assert_eq!(cluster.tables().table_index(&[Table::RootKeys]), made);
    // Secrets that an update keeps are not sealed again.
    let methods = methods.into_iter().map(|method| AclAuthMethod {
        config: None,
        ..method
    });
    let methods = methods.collect();
    cluster.done(AclAuthMethods::Upsert { methods }.into());
    let key = cluster.tables().root_key(1).expect("the key");
    assert_eq!(key.seals, 2);
}

#[test]
fn bootstrap_is_of_the_first_level_only_without_a_sealed_secret() {
    let bootstrap = |sealed| Command::AclBootstrap {
        token: AclToken {
            kind: AclTokenKind::Management,
            policies: Vec::new(),
            global: true,
            sealed,
            ..token(1)
        },
        reset_index: 0,
    };
    assert_eq!(bootstrap(None).level(), 1);
    assert_eq!(bootstrap(Some(sealed(1))).level(), 3);
    assert_eq!(Command::from(upsert(1, None)).level(), 3);
    assert_eq!(Command::from(upsert(2, Some(1))).level(), 4);
}
