//! Tokens, and tokens for one use.

use std::time::Duration;

use protocol_model::nullable::{self, or_default};
use protocol_model::{SecretText, UnixNanos};
use protocol_model::{rfc3339, rfc3339_always};
use serde::{Deserialize, Serialize};

use super::ttl;

/// The body of [`super::Bootstrap`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BootstrapRequest {
    /// The token's secret; empty = one is made.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "SecretText::is_empty"
    )]
    pub bootstrap_secret: SecretText,
}

/// A role of a token. A request names it by either; an answer has both.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RoleLink {
    /// The role's id.
    #[serde(rename = "ID", deserialize_with = "or_default")]
    pub id: String,
    /// The role's name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// The body of [`super::CreateToken`] and [`super::UpdateToken`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TokenRequest {
    /// Its public name, a UUID; empty = a new token, or the path's.
    #[serde(
        rename = "AccessorID",
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub accessor_id: String,
    /// Its secret, a UUID; read with `AccessorID` and for a token that is not there yet.
    #[serde(
        rename = "SecretID",
        deserialize_with = "or_default",
        skip_serializing_if = "SecretText::is_empty"
    )]
    pub secret_id: SecretText,
    /// A name of 256 bytes at most, for people.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `client` or `management`.
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub kind: String,
    /// Names of policies, which need not exist.
    #[serde(deserialize_with = "or_default")]
    pub policies: Vec<String>,
    /// Roles, which exist.
    #[serde(deserialize_with = "or_default")]
    pub roles: Vec<RoleLink>,
    /// Kept and shown; absent = `false`, or unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<bool>,
    /// The time from which on it is refused.
    #[serde(with = "rfc3339", skip_serializing_if = "Option::is_none")]
    pub expiration_time: Option<UnixNanos>,
    /// The same as a duration from its creation on; zero = not given.
    #[serde(
        rename = "ExpirationTTL",
        with = "ttl",
        skip_serializing_if = "Duration::is_zero"
    )]
    pub expiration_ttl: Duration,
}

/// A token.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Token {
    /// Its public name, a UUID; `anonymous` for callers without a token.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// Its secret; empty where this server cannot show it.
    #[serde(rename = "SecretID")]
    pub secret_id: SecretText,
    pub name: String,
    /// `client` or `management`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Names of policies.
    #[serde(with = "nullable")]
    pub policies: Vec<String>,
    /// Roles that exist, with their present names.
    #[serde(with = "nullable")]
    pub roles: Vec<RoleLink>,
    pub global: bool,
    /// SHA-256 of what is written, base64.
    #[serde(deserialize_with = "or_default")]
    pub hash: String,
    #[serde(with = "rfc3339_always")]
    pub create_time: UnixNanos,
    /// The time from which on it is refused; `null` = never.
    #[serde(with = "rfc3339")]
    pub expiration_time: Option<UnixNanos>,
    /// The duration that it was made with; empty = none.
    #[serde(rename = "ExpirationTTL", with = "ttl")]
    pub expiration_ttl: Duration,
    pub create_index: u64,
    pub modify_index: u64,
}

/// A token in lists.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TokenStub {
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    pub name: String,
    /// `client` or `management`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Names of policies.
    #[serde(with = "nullable")]
    pub policies: Vec<String>,
    /// Roles that exist, with their present names.
    #[serde(with = "nullable")]
    pub roles: Vec<RoleLink>,
    pub global: bool,
    /// As in [`Token`].
    #[serde(deserialize_with = "or_default")]
    pub hash: String,
    #[serde(with = "rfc3339_always")]
    pub create_time: UnixNanos,
    /// The time from which on it is refused; `null` = never.
    #[serde(with = "rfc3339")]
    pub expiration_time: Option<UnixNanos>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// The answer of [`super::CreateOneTimeToken`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OneTimeTokenMade {
    pub one_time_token: OneTimeToken,
    pub index: u64,
}

/// A token for one use.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OneTimeToken {
    /// Its secret, a UUID.
    #[serde(rename = "OneTimeSecretID")]
    pub one_time_secret_id: SecretText,
    /// The token that it is exchanged for.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// The time from which on it is refused: 10 minutes after it was made.
    #[serde(with = "rfc3339_always")]
    pub expires_at: UnixNanos,
    pub create_index: u64,
    pub modify_index: u64,
}

/// The body of [`super::ExchangeOneTimeToken`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExchangeRequest {
    /// Its secret.
    #[serde(rename = "OneTimeSecretID", deserialize_with = "or_default")]
    pub one_time_secret_id: SecretText,
}

/// The answer of [`super::ExchangeOneTimeToken`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExchangedToken {
    /// The token, with its secret.
    pub token: Token,
    pub index: u64,
}
