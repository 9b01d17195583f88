//! Namespaces.

use std::collections::BTreeMap;

use protocol_model::nullable::{self, or_default};
use serde::{Deserialize, Serialize};

use crate::needs::{MANAGEMENT, READ_NAMESPACE, SHOWN};
use crate::operation::operations;
use crate::parameters::PREFIX;
use crate::written::Written;

operations! {
    /// list namespaces
    ListNamespaces {} -> Vec<Namespace> = get("/v1/namespaces", SHOWN).parameters(&[PREFIX]);
    /// create or change the namespace that the body names
    WriteNamespace {} (NamespaceRequest) -> Written = put("/v1/namespace", MANAGEMENT);
    /// read a namespace
    ReadNamespace { name } -> Namespace = get("/v1/namespace/{name}", READ_NAMESPACE);
    /// create or change a namespace
    UpdateNamespace { name } (NamespaceRequest) -> Written = put("/v1/namespace/{name}", MANAGEMENT);
    /// remove a namespace that has no jobs
    DeleteNamespace { name } -> Written = delete("/v1/namespace/{name}", MANAGEMENT);
}

/// The body of [`WriteNamespace`] and [`UpdateNamespace`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespaceRequest {
    /// Its name: letters, digits, hyphens, 128 bytes at most.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// A description of 256 bytes at most.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Keys and values of its users.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
}

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Namespace {
    pub name: String,
    pub description: String,
    /// Always empty: there are no quotas.
    pub quota: String,
    /// Keys and values of its users.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    pub create_index: u64,
    pub modify_index: u64,
}
