//! Changes of auth methods; `protocol-model` has their shape.

use std::time::Duration;

use protocol_model::AuthMethodConfig;
use protocol_model::duration::text;
use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};

/// The body of [`super::CreateAuthMethod`] and [`super::UpdateAuthMethod`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthMethodRequest {
    /// Its name: letters, digits, hyphens, 128 bytes at most. Empty = the path's.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `OIDC` or `JWT`; empty = unchanged.
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub kind: String,
    /// `local` or `global`: what its tokens' `Global` is. Empty = unchanged.
    #[serde(deserialize_with = "or_default")]
    pub token_locality: String,
    /// How its tokens are named; empty = unchanged, `${auth_method_type}-${auth_method_name}` at
    /// first.
    #[serde(deserialize_with = "or_default")]
    pub token_name_format: String,
    /// How long its tokens live; zero = unchanged.
    #[serde(rename = "MaxTokenTTL", with = "text")]
    pub max_token_ttl: Duration,
    /// Whether it is the one of a login that names none; absent = unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// How its tokens are verified; absent = unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<AuthMethodConfig>,
}
