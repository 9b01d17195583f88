//! Changes of binding rules; `protocol-model` has their shape.

use protocol_model::nullable::or_default;
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
    /// The auth method whose logins it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<String>,
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
