//! Access control.

use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};

use crate::needs::PUBLIC;
use crate::operation::operations;

/// The largest body of [`Bootstrap`], which anybody may send: it holds one secret.
const BOOTSTRAP_BYTES_MAX: usize = 4096;

operations! {
    /// make the first token; `BootstrapSecret` is its secret, a UUID (made where it is absent)
    Bootstrap {} (BootstrapRequest) -> Token = put("/v1/acl/bootstrap", PUBLIC)
        .needs_access_control()
        .optional_body()
        .body_bytes_max(BOOTSTRAP_BYTES_MAX);
    /// describe the caller's token
    OwnToken {} -> Token = get("/v1/acl/token/self", PUBLIC).needs_access_control();
}

/// The body of [`Bootstrap`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BootstrapRequest {
    /// The token's secret; empty = one is made.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub bootstrap_secret: String,
}

/// A token.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Token {
    /// Its public name, a UUID.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// Its secret; empty except in the answer that makes it.
    #[serde(rename = "SecretID")]
    pub secret_id: String,
    pub name: String,
    /// `management`.
    #[serde(rename = "Type")]
    pub kind: String,
    pub policies: Option<Vec<String>>,
    pub roles: Option<Vec<String>>,
    pub global: bool,
    /// RFC 3339.
    pub create_time: String,
    pub expiration_time: Option<String>,
    pub create_index: u64,
    pub modify_index: u64,
}
