//! Roles: names for sets of policies.

use protocol_model::nullable::{self, or_default};
use serde::{Deserialize, Serialize};

/// A policy of a role.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PolicyLink {
    /// The policy's name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// The body of [`super::CreateRole`] and [`super::UpdateRole`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RoleRequest {
    /// Its id; empty = a new one, or the path's.
    #[serde(
        rename = "ID",
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub id: String,
    /// Its name, unique: letters, digits, hyphens, 128 bytes at most.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// A description of 256 bytes at most.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Its policies: one at least, 256 at most, and they exist.
    #[serde(deserialize_with = "or_default")]
    pub policies: Vec<PolicyLink>,
}

/// A role.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Role {
    /// A UUID.
    #[serde(rename = "ID")]
    pub id: String,
    pub name: String,
    pub description: String,
    /// Its policies, by name.
    #[serde(with = "nullable")]
    pub policies: Vec<PolicyLink>,
    /// SHA-256 of what is written, base64.
    pub hash: String,
    pub create_index: u64,
    pub modify_index: u64,
}
