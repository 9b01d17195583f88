//! Binding rules: which roles and policies a login is given.

use protocol_model::UnixNanos;
use protocol_model::nullable::or_default;
use protocol_model::rfc3339_always;
use serde::{Deserialize, Serialize};

/// The body of [`super::CreateBindingRule`] and [`super::UpdateBindingRule`]. An absent field is
/// empty, or unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BindingRuleRequest {
    /// Its id; empty = a new one, or the path's.
    #[serde(
        rename = "ID",
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub id: String,
    /// A description of 256 bytes at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The auth method whose logins it is for; empty = unchanged.
    #[serde(deserialize_with = "or_default")]
    pub auth_method: String,
    /// An expression over `value.<name>` and `list.<name>`; empty = every login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// `role`, `policy` or `management`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_type: Option<String>,
    /// The role or policy, with `${value.<name>}` filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_name: Option<String>,
}

/// A binding rule.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BindingRule {
    /// A UUID.
    #[serde(rename = "ID")]
    pub id: String,
    pub description: String,
    pub auth_method: String,
    pub selector: String,
    /// `role`, `policy` or `management`.
    pub bind_type: String,
    pub bind_name: String,
    /// SHA-256 of what is written, base64.
    #[serde(deserialize_with = "or_default")]
    pub hash: String,
    #[serde(with = "rfc3339_always")]
    pub create_time: UnixNanos,
    #[serde(with = "rfc3339_always")]
    pub modify_time: UnixNanos,
    pub create_index: u64,
    pub modify_index: u64,
}

/// A binding rule in lists.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BindingRuleStub {
    #[serde(rename = "ID")]
    pub id: String,
    pub description: String,
    pub auth_method: String,
    /// As in [`BindingRule`].
    #[serde(deserialize_with = "or_default")]
    pub hash: String,
    pub create_index: u64,
    pub modify_index: u64,
}
