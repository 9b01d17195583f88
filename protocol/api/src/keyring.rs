//! The keyring: root keys, and their public halves.

use protocol_model::UnixNanos;
use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::endpoint::Parameter;
use crate::needs::{KEYRING_DELETE, KEYRING_READ, KEYRING_ROTATE, PUBLIC};
use crate::operation::operations;
use crate::written::Written;

const ROTATE: &[Parameter] = &[
    Parameter::flag(
        "full",
        "move the values of all variables to the new key, too",
    ),
    Parameter::number(
        "publish_time",
        "publish the key now, let it sign from this time on: nanoseconds since 1970",
    ),
];

const REMOVE: &[Parameter] = &[Parameter::flag(
    "force",
    "also where live allocations have identities that are signed with it",
)];

operations! {
    /// show the public keys that verify identities of tasks (JWKS, RFC 7517)
    ReadJwks {} -> Value = get("/.well-known/jwks.json", PUBLIC).of_server();
    /// describe the issuer of identities (OpenID Connect discovery), where `oidc_issuer` is set
    ReadDiscovery {} -> Value = get("/.well-known/openid-configuration", PUBLIC).of_server();
    /// list the root keys, without their material
    ListRootKeys {} -> Vec<RootKeyMeta> = get("/v1/operator/keyring/keys", KEYRING_READ);
    /// make a new root key
    RotateRootKey {} -> RotatedRootKey = put("/v1/operator/keyring/rotate", KEYRING_ROTATE).parameters(ROTATE);
    /// remove a root key that is not active
    RemoveRootKey { id } -> Written = delete("/v1/operator/keyring/key/{id}", KEYRING_DELETE).parameters(REMOVE);
}

/// A root key, without its material.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RootKeyMeta {
    /// The cipher of sealed values: `aes256-gcm`.
    pub algorithm: String,
    pub create_index: u64,
    pub create_time: UnixNanos,
    #[serde(rename = "KeyID")]
    pub key_id: String,
    pub modify_index: u64,
    /// The time from which it signs; 0 = it did at once.
    pub publish_time: UnixNanos,
    /// `prepublished`, `active`, `rekeying` or `inactive`.
    pub state: String,
}

/// The answer of [`RotateRootKey`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RotatedRootKey {
    pub index: u64,
    /// The new key.
    #[serde(deserialize_with = "or_default")]
    pub key: RootKeyMeta,
}
