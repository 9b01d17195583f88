//! Frozen bytes. A test that fails here means that a server of the next release cannot open what
//! one of this release sealed: keep the old format readable and add a new folder.

use std::path::PathBuf;

use controlplane_keyring::{
    Kek, Keyring, KeyringError, Purpose, Sealed, WrappedRootKey, sealed_from_bytes, sealed_to_bytes,
};
use controlplane_state::VariableKey;

use crate::material::{NONCE, kek, one, root_key, wrapped};

/// The frozen bytes of a name. `UPDATE_GOLDEN=1` writes those that are missing, and never changes
/// one.
fn frozen(name: &str, now: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let path = path.join(name);
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, now).expect("the file is written");
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_kek_file_is_written_and_read_as_it_was_frozen() {
    let kek = kek(1);
    let text = kek.to_text();
    let frozen = frozen("kek_file.txt", text.as_bytes());
    assert_eq!(text.as_bytes(), frozen);
    let read = Kek::from_text(&frozen).expect("it was frozen as a KEK file");
    assert_eq!(read.reveal(), kek.reveal());
}

#[test]
fn a_wrapped_root_key_is_written_and_read_as_it_was_frozen() {
    let wrapped = wrapped(2, 1);
    let frozen = frozen("wrapped_root_key.bin", &wrapped.bytes);
    assert_eq!(wrapped.bytes, frozen);
    let wrapped = WrappedRootKey {
        bytes: frozen,
        ..wrapped
    };
    let opened = wrapped.unwrap_with(&kek(1)).expect("it was frozen so");
    assert_eq!(opened.public(), root_key(2).public());
}

#[test]
fn the_public_halves_are_derived_as_they_were_frozen() {
    let public = root_key(2).public().clone();
    assert_eq!(
        public.ed25519.as_slice(),
        frozen("ed25519_public.bin", &public.ed25519)
    );
    assert_eq!(public.rsa, frozen("rsa_public.der", &public.rsa));
}

#[test]
fn items_of_a_variable_are_sealed_and_opened_as_they_were_frozen() {
    let keyring = Keyring::default();
    keyring.add_kek(kek(1));
    keyring.set_root_keys(one(wrapped(2, 1)));
    let variable = VariableKey::new("default", "app/db");
    let sealed = keyring.seal_variable(&variable, b"{\"k\":\"v\"}", NONCE);
    let sealed = sealed_to_bytes(&sealed.expect("it is sealed"));
    let frozen = frozen("variable.bin", &sealed);
    assert_eq!(sealed, frozen);
    let read = sealed_from_bytes(&frozen).expect("it was frozen so");
    let opened = keyring.open_variable(&variable, &read).expect("it opens");
    assert_eq!(opened.as_slice(), b"{\"k\":\"v\"}");
    // Threat 20: it is of this place alone.
    for (namespace, path) in [
        ("default", "app/d"),
        ("dev", "app/db"),
        ("defaulta", "pp/db"),
    ] {
        let other = VariableKey::new(namespace, path);
        let damaged = keyring.open_variable(&other, &read);
        assert_eq!(damaged.err(), Some(KeyringError::Damaged { key: read.key }));
    }
    let cut = Sealed {
        bytes: read.bytes[..read.bytes.len() - 1].to_vec(),
        ..read
    };
    keyring
        .open_variable(&variable, &cut)
        .expect_err("it was cut");
}

#[test]
fn values_of_each_purpose_are_sealed_and_opened_as_they_were_frozen() {
    let keyring = Keyring::default();
    keyring.add_kek(kek(1));
    keyring.set_root_keys(one(wrapped(2, 1)));
    for purpose in Purpose::ALL {
        let sealed = keyring.seal(purpose, b"a place", b"a secret", NONCE);
        let sealed = sealed_to_bytes(&sealed.expect("it is sealed"));
        let name = format!("sealed_{}.bin", purpose.label().replace('/', "_"));
        let frozen = frozen(&name, &sealed);
        assert_eq!(sealed, frozen, "{name}");
        let read = sealed_from_bytes(&frozen).expect("it was frozen so");
        let opened = keyring.open(purpose, b"a place", &read).expect("it opens");
        assert_eq!(opened.as_slice(), b"a secret");
    }
}
