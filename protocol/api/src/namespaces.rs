//! Namespaces.

use std::collections::BTreeMap;

use protocol_model::nullable::{self, or_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operation::operations;
use crate::parameters::PREFIX;

operations! {
    /// list namespaces
    ListNamespaces {} -> Vec<Value> = get("/v1/namespaces").parameters(&[PREFIX]);
    /// create or change the namespace that the body names
    WriteNamespace {} (NamespaceRequest) -> Value = put("/v1/namespace");
    /// read a namespace
    ReadNamespace { name } -> Value = get("/v1/namespace/{name}");
    /// create or change a namespace
    UpdateNamespace { name } (NamespaceRequest) -> Value = put("/v1/namespace/{name}");
    /// remove a namespace that has no jobs
    DeleteNamespace { name } -> Value = delete("/v1/namespace/{name}");
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
