//! Values that are out of their place (threat 20), and root keys without their KEK.

use controlplane_keyring::{
    Keyring, KeyringError, Purpose, RootKey, RootKeys, SEAL_BYTES_MAX, Sealed, WrappedRootKey,
    fresh_nonce,
};
use proptest::prelude::*;

use crate::material::{NONCE, kek, key_id, one, root_key, wrapped};

/// A keyring with KEK 1 and root key 2.
fn keyring() -> Keyring {
    let keyring = Keyring::default();
    keyring.add_kek(kek(1));
    keyring.set_root_keys(one(wrapped(2, 1)));
    keyring
}

fn seal(keyring: &Keyring, aad: &[u8]) -> Sealed {
    let sealed = keyring.seal(Purpose::Tokens, aad, b"secret", fresh_nonce());
    sealed.expect("it is sealed")
}

#[test]
fn a_value_opens_only_in_its_place_and_for_its_purpose() {
    let keyring = keyring();
    let sealed = seal(&keyring, b"token a");
    let open = |purpose, aad: &[u8]| keyring.open(purpose, aad, &sealed).map(|it| it.to_vec());
    let damaged = Err(KeyringError::Damaged { key: 2 });
    assert_eq!(open(Purpose::Tokens, b"token a"), Ok(b"secret".to_vec()));
    assert_eq!(open(Purpose::Tokens, b"token b"), damaged);
    assert_eq!(open(Purpose::Tokens, b""), damaged);
    assert_eq!(open(Purpose::Logins, b"token a"), damaged);
    assert_eq!(open(Purpose::Methods, b"token a"), damaged);
}

#[test]
fn a_value_of_another_root_key_is_not_opened_with_the_active_one() {
    let keyring = keyring();
    let sealed = seal(&keyring, b"a");
    // The number is not part of the sealed bytes.
    let moved = Sealed { key: 3, ..sealed };
    let unknown = KeyringError::UnknownKey { key: 3 };
    assert_eq!(
        keyring.open(Purpose::Tokens, b"a", &moved).err(),
        Some(unknown)
    );
    keyring.set_root_keys(RootKeys {
        wrapped: vec![wrapped(2, 1), wrapped(3, 1)],
        active: Some(2),
    });
    let damaged = KeyringError::Damaged { key: 3 };
    assert_eq!(
        keyring.open(Purpose::Tokens, b"a", &moved).err(),
        Some(damaged)
    );
}

proptest! {
    #[test]
    fn a_value_that_was_changed_or_cut_does_not_open(
        at in 0usize..100, bit in 0u8..8, cut in 0usize..22,
    ) {
        let keyring = keyring();
        let sealed = seal(&keyring, b"a");
        let mut bent = sealed.clone();
        let at = at % bent.bytes.len();
        bent.bytes[at] ^= 1 << bit;
        prop_assert!(keyring.open(Purpose::Tokens, b"a", &bent).is_err());
        let mut short = sealed;
        short.bytes.truncate(cut);
        prop_assert!(keyring.open(Purpose::Tokens, b"a", &short).is_err());
    }
}

#[test]
fn a_missing_kek_is_named_and_fixes_everything_when_it_comes() {
    let keyring = Keyring::default();
    assert_eq!(keyring.trouble(), Some(KeyringError::NoRootKey));
    keyring.set_root_keys(one(wrapped(2, 1)));
    let missing = KeyringError::Missing { kek: kek(1).id() };
    assert_eq!(keyring.trouble(), Some(missing));
    let sealed = keyring.seal(Purpose::Tokens, b"", b"secret", NONCE);
    assert_eq!(sealed, Err(missing));
    let id = kek(1).id();
    assert_eq!(
        missing.to_string(),
        format!("the keyring is not available on this server: KEK {id} is missing")
    );
    keyring.add_kek(kek(9));
    assert_eq!(keyring.missing_keks().into_iter().collect::<Vec<_>>(), [id]);
    keyring.add_kek(kek(1));
    assert_eq!(keyring.trouble(), None);
    assert!(keyring.missing_keks().is_empty());
    let sealed = seal(&keyring, b"");
    keyring
        .open(Purpose::Tokens, b"", &sealed)
        .expect("it opens");
}

#[test]
fn a_kek_does_not_open_what_another_one_wrapped() {
    let wrapped = wrapped(2, 1);
    let missing = KeyringError::Missing { kek: kek(1).id() };
    assert_eq!(wrapped.unwrap_with(&kek(3)).err(), Some(missing));
    // It says so of itself, and lies.
    let other = kek(3);
    let lies = WrappedRootKey {
        kek: other.id(),
        ..wrapped
    };
    let unusable = KeyringError::Unusable {
        kek: other.id(),
        key: 2,
    };
    assert_eq!(lies.unwrap_with(&other).err(), Some(unusable));
}

#[test]
fn a_wrapped_key_does_not_open_as_another_root_key() {
    let moved = WrappedRootKey {
        id: key_id(3),
        ..wrapped(2, 1)
    };
    let unusable = KeyringError::Unusable {
        kek: kek(1).id(),
        key: 2,
    };
    assert_eq!(moved.unwrap_with(&kek(1)).err(), Some(unusable));
    let keyring = keyring();
    keyring.set_root_keys(one(moved));
    assert_eq!(keyring.trouble(), Some(unusable));
}

#[test]
fn a_root_key_that_left_the_state_opens_nothing_any_more() {
    let keyring = keyring();
    let sealed = seal(&keyring, b"a");
    keyring.set_root_keys(one(wrapped(3, 1)));
    let unknown = KeyringError::UnknownKey { key: 2 };
    assert_eq!(
        keyring.open(Purpose::Tokens, b"a", &sealed).err(),
        Some(unknown)
    );
    assert_eq!(keyring.active(), Some((3, kek(1).id())));
}

#[test]
fn a_value_above_the_limit_is_not_sealed() {
    let keyring = keyring();
    let (largest, larger) = (vec![0; SEAL_BYTES_MAX], vec![0; SEAL_BYTES_MAX + 1]);
    keyring
        .seal(Purpose::Methods, b"", &largest, NONCE)
        .unwrap();
    let refused = keyring.seal(Purpose::Methods, b"", &larger, NONCE);
    assert_eq!(
        refused,
        Err(KeyringError::TooLarge {
            bytes: SEAL_BYTES_MAX + 1
        })
    );
}

#[test]
fn a_new_root_key_survives_its_wrapping_and_differs_from_others() {
    let made = RootKey::generate().expect("an RSA key");
    let fresh = WrappedRootKey {
        bytes: made.wrap(key_id(2), &kek(1), fresh_nonce()),
        ..wrapped(2, 1)
    };
    let opened = fresh.unwrap_with(&kek(1)).expect("its own KEK opens it");
    assert_eq!(opened.public(), made.public());
    assert_ne!(made.public().rsa, root_key(2).public().rsa);
    assert_ne!(made.public().ed25519, root_key(2).public().ed25519);
}

#[test]
fn no_secret_is_in_what_is_shown_of_a_keyring() {
    let shown = format!("{:?}", keyring());
    assert!(shown.contains(&kek(1).id().to_string()), "{shown}");
    // The KEK repeats a byte, the seed another one.
    for planted in ["0101", "0202", "1, 1", "2, 2"] {
        assert!(!shown.contains(planted), "{shown}");
    }
}
