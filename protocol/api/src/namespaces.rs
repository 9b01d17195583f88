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
    /// delete a namespace without live jobs and allocations
    DeleteNamespace { name } -> Written = delete("/v1/namespace/{name}", MANAGEMENT);
}

/// The body of [`WriteNamespace`] and [`UpdateNamespace`]. It replaces the namespace: a field that
/// is absent is empty from then on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespaceRequest {
    /// Its name: `^[a-zA-Z0-9-]{1,128}$`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// A description of 256 bytes at most.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Refused, unless it is empty: there are no quotas.
    #[serde(deserialize_with = "or_default")]
    pub quota: String,
    /// The drivers and network modes that its jobs may use; absent = all.
    pub capabilities: Option<NamespaceCapabilities>,
    /// The node pools that its jobs may use; absent = all.
    pub node_pool_configuration: Option<NamespaceNodePoolConfiguration>,
    /// How many bytes its variables may take; 0 = the default.
    #[serde(deserialize_with = "or_default")]
    pub variables_bytes_max: u64,
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
    #[serde(deserialize_with = "or_default")]
    pub quota: String,
    /// The drivers and network modes that its jobs may use; `null` = all.
    pub capabilities: Option<NamespaceCapabilities>,
    /// The node pools that its jobs may use; `null` = all.
    pub node_pool_configuration: Option<NamespaceNodePoolConfiguration>,
    /// How many bytes its variables may take; 0 = the default.
    pub variables_bytes_max: u64,
    /// Keys and values of its users.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// The drivers and network modes that jobs of a namespace may use. A disabled one is not
/// allowed even where it is enabled.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespaceCapabilities {
    /// Drivers that tasks may use; empty = all.
    #[serde(with = "nullable")]
    pub enabled_task_drivers: Vec<String>,
    /// Drivers that no task may use.
    #[serde(with = "nullable")]
    pub disabled_task_drivers: Vec<String>,
    /// Modes that networks of groups may have; empty = all. A group without a network has `host`.
    #[serde(with = "nullable")]
    pub enabled_network_modes: Vec<String>,
    /// Modes that no network of a group may have.
    #[serde(with = "nullable")]
    pub disabled_network_modes: Vec<String>,
}

/// The node pools of a namespace. `Allowed` and `Denied` exclude each other.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespaceNodePoolConfiguration {
    /// The pool of jobs that name none; empty = `default`.
    #[serde(deserialize_with = "or_default")]
    pub default: String,
    /// Patterns of the pools that jobs may name beside it; `*` stands for any characters. `null` =
    /// all, an empty list = the default pool alone.
    pub allowed: Option<Vec<String>>,
    /// Patterns of the pools that jobs may not be in.
    #[serde(with = "nullable")]
    pub denied: Vec<String>,
}
