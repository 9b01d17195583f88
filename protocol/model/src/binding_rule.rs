//! Binding rules: which roles and policies a login yields.

use serde::{Deserialize, Serialize};

use crate::instant::{UnixNanos, rfc3339_always};
use crate::nullable::or_default;

/// The `BindType` of a rule that links a role.
pub const BIND_ROLE: &str = "role";
/// The `BindType` of a rule that links a policy.
pub const BIND_POLICY: &str = "policy";
/// The `BindType` of a rule that makes the token a management token.
pub const BIND_MANAGEMENT: &str = "management";

/// A rule of an auth method: where its selector matches a login, its name is bound.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BindingRule {
    /// A UUID.
    #[serde(rename = "ID", deserialize_with = "or_default")]
    pub id: String,
    /// A free text.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// The name of the method whose logins it is for.
    #[serde(deserialize_with = "or_default")]
    pub auth_method: String,
    /// An expression over `value.NAME` and `list.NAME`; empty matches every login.
    #[serde(deserialize_with = "or_default")]
    pub selector: String,
    /// [`BIND_ROLE`], [`BIND_POLICY`] or [`BIND_MANAGEMENT`].
    #[serde(deserialize_with = "or_default")]
    pub bind_type: String,
    /// The role or policy, perhaps with `${value.NAME}`; empty for management.
    #[serde(deserialize_with = "or_default")]
    pub bind_name: String,
    /// When it was made.
    #[serde(with = "rfc3339_always")]
    pub create_time: UnixNanos,
    /// When it was changed last.
    #[serde(with = "rfc3339_always")]
    pub modify_time: UnixNanos,
    /// The log index that made it.
    #[serde(deserialize_with = "or_default")]
    pub create_index: u64,
    /// The log index that changed it last.
    #[serde(deserialize_with = "or_default")]
    pub modify_index: u64,
}

/// A row of the list of binding rules.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BindingRuleStub {
    /// See [`BindingRule::id`].
    #[serde(rename = "ID")]
    pub id: String,
    /// See [`BindingRule::description`].
    pub description: String,
    /// See [`BindingRule::auth_method`].
    pub auth_method: String,
    /// See [`BindingRule::create_index`].
    pub create_index: u64,
    /// See [`BindingRule::modify_index`].
    pub modify_index: u64,
}

impl From<&BindingRule> for BindingRuleStub {
    fn from(rule: &BindingRule) -> Self {
        Self {
            id: rule.id.clone(),
            description: rule.description.clone(),
            auth_method: rule.auth_method.clone(),
            create_index: rule.create_index,
            modify_index: rule.modify_index,
        }
    }
}
