//! Binding rules: which rights a login gets by its claims.

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};

use super::ACL_DESCRIPTION_LEN_MAX;

/// The most binding rules that a cluster keeps.
pub const BINDING_RULES_MAX: usize = 4096;
/// The longest selector or bind name of a binding rule, in bytes.
const TEXT_LEN_MAX: usize = 4096;

/// A binding rule.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AclBindingRule {
    /// Its id, as a UUID text.
    pub id: String,
    /// Its purpose, for people.
    pub description: String,
    /// The auth method whose logins it binds. It exists, and the rule goes with it.
    pub auth_method: String,
    /// The expression that a login's claims have to meet; empty = all do. The state does not read
    /// it.
    pub selector: String,
    /// The kind of right.
    pub bind_type: BindType,
    /// The name of the role or policy, with references to fill; empty for management.
    pub bind_name: String,
    /// The time of its creation.
    pub create_time: UnixNanos,
    /// The time of its last change.
    pub modify_time: UnixNanos,
    /// The log index of its creation.
    pub create_index: u64,
    /// The log index of its last change.
    pub modify_index: u64,
}

/// The kind of right that a binding rule gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BindType {
    /// A role.
    #[default]
    Role,
    /// A policy.
    Policy,
    /// Everything.
    Management,
}

impl BindType {
    /// The kind as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Policy => "policy",
            Self::Management => "management",
        }
    }
}

/// Why a binding rule is not written. The texts are Nomad's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum BindingRuleFault {
    /// It has no id.
    #[error("binding rule has no id")]
    NoId,
    /// It names no auth method.
    #[error("auth method is missing")]
    NoAuthMethod,
    /// Its auth method does not exist.
    #[error("ACL auth method {0} not found")]
    UnknownAuthMethod(String),
    /// Its description is too long.
    #[error("description longer than {ACL_DESCRIPTION_LEN_MAX}")]
    DescriptionTooLong,
    /// It binds a role or policy without a name.
    #[error("bind name is missing")]
    NoBindName,
    /// It binds management, which has no name.
    #[error("bind name should be empty")]
    BindName,
    /// Its selector or bind name is too long.
    #[error("selector or bind name has {bytes} bytes: at most {TEXT_LEN_MAX} are allowed")]
    TextTooLong {
        /// The length of the longer one.
        bytes: usize,
    },
}

impl AclBindingRule {
    /// The first fault of a binding rule that is to be written, its auth method aside. The selector
    /// is not read here.
    pub fn fault(&self) -> Option<BindingRuleFault> {
        let bytes = self.selector.len().max(self.bind_name.len());
        if self.id.is_empty() {
            return Some(BindingRuleFault::NoId);
        }
        if self.auth_method.is_empty() {
            return Some(BindingRuleFault::NoAuthMethod);
        }
        if self.description.len() > ACL_DESCRIPTION_LEN_MAX {
            return Some(BindingRuleFault::DescriptionTooLong);
        }
        if bytes > TEXT_LEN_MAX {
            return Some(BindingRuleFault::TextTooLong { bytes });
        }
        match (self.bind_type, self.bind_name.is_empty()) {
            (BindType::Role | BindType::Policy, true) => Some(BindingRuleFault::NoBindName),
            (BindType::Management, false) => Some(BindingRuleFault::BindName),
            (BindType::Role | BindType::Policy, false) | (BindType::Management, true) => None,
        }
    }
}
