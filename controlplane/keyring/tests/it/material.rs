//! Fixed keys. They protect nothing: they stand in this repository.

use controlplane_keyring::{Kek, Nonce, RootKey, RootKeys, WrappedRootKey};
use uuid::Uuid;
use zeroize::Zeroizing;

pub(crate) const NONCE: Nonce = [5; 12];

pub(crate) fn kek(fill: u8) -> Kek {
    Kek::from_slice(&[fill; 32]).expect("32 bytes")
}

/// A root key whose seed repeats `fill`. Making an RSA key takes long, so all share a fixed one.
pub(crate) fn root_key(fill: u8) -> RootKey {
    let pkcs8 = include_bytes!("../golden/v1/rsa_2048.pk8");
    RootKey::from_parts(Zeroizing::new([fill; 32]), pkcs8).expect("an RSA-2048 key")
}

pub(crate) fn key_id(fill: u8) -> Uuid {
    Uuid::from_bytes([fill; 16])
}

/// The root key of seed, id and number `fill`, wrapped by KEK `with`.
pub(crate) fn wrapped(fill: u8, with: u8) -> WrappedRootKey {
    let kek = kek(with);
    WrappedRootKey {
        number: fill.into(),
        id: key_id(fill),
        kek: kek.id(),
        bytes: root_key(fill).wrap(key_id(fill), &kek, NONCE),
    }
}

/// A state with one root key.
pub(crate) fn one(wrapped: WrappedRootKey) -> RootKeys {
    RootKeys {
        active: Some(wrapped.number),
        wrapped: vec![wrapped],
    }
}
