//! Tokens that are signed, as other releases and relying parties verify them.

use std::path::PathBuf;

use controlplane_keyring::{Keyring, KeyringError};
use protocol_access::identity::{IdentityClaims, OWN_AUDIENCE, PublicKeyPair, verify};
use protocol_access::jwt::SigningAlgorithm;
use protocol_model::AllocId;
use uuid::Uuid;

use crate::material::{kek, key_id, one, root_key, wrapped};

fn keyring() -> Keyring {
    let keyring = Keyring::default();
    keyring.add_kek(kek(1));
    keyring.set_root_keys(one(wrapped(2, 1)));
    keyring
}

fn claims(audience: &str) -> IdentityClaims {
    IdentityClaims {
        namespace: "default".to_owned(),
        job_id: "web".to_owned(),
        alloc_id: AllocId::from_u128(7),
        task: "api".to_owned(),
        subject: "global:default:web:front:api:default".to_owned(),
        audiences: vec![audience.to_owned()],
        issued_at: 1_700_000_000,
        not_before: 1_700_000_000,
        expires_at: None,
        id: Uuid::from_u128(8),
        issuer: None,
    }
}

/// The frozen token. `UPDATE_GOLDEN=1` writes one that is missing, and never changes one.
fn frozen(name: &str, now: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let path = path.join(name);
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, now).expect("the file is written");
    }
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn token_of_each_algorithm_is_signed_as_it_was_frozen() {
    for (name, algorithm, audience) in [
        ("token_eddsa.jwt", SigningAlgorithm::EdDsa, OWN_AUDIENCE),
        ("token_rs256.jwt", SigningAlgorithm::Rs256, "vault.example"),
    ] {
        let claims = claims(audience);
        let token = keyring().sign(2, algorithm, &claims).expect("a token");
        assert_eq!(token, frozen(name, &token), "{name}");
        let key = root_key(2);
        let public = PublicKeyPair {
            ed25519: &key.public().ed25519,
            rsa: &key.public().rsa,
        };
        let find = |id| (id == key_id(2)).then_some(public);
        assert_eq!(verify(&token, find).expect(name).claims, claims);
    }
}

#[test]
fn token_is_signed_by_the_key_that_is_named_or_not_at_all() {
    let keyring = keyring();
    let sign = |number| keyring.sign(number, SigningAlgorithm::EdDsa, &claims("a"));
    assert_eq!(sign(3), Err(KeyringError::UnknownKey { key: 3 }));
    let without_kek = Keyring::default();
    without_kek.set_root_keys(one(wrapped(2, 1)));
    let refused = without_kek.sign(2, SigningAlgorithm::EdDsa, &claims("a"));
    let missing = KeyringError::Missing { kek: kek(1).id() };
    assert_eq!(refused, Err(missing));
}
