//! Node pools.

use std::collections::BTreeMap;

use protocol_model::NodeListStub;
use protocol_model::nullable::{self, or_default};
use serde::{Deserialize, Serialize};

use crate::endpoint::Parameter;
use crate::jobs::JobListStub;
use crate::needs::{DELETE_POOL, POOL_NODES, READ_POOL, SHOWN, WRITE_POOL, WRITE_SOME_POOL};
use crate::operation::operations;
use crate::parameters::{NEXT_TOKEN, PER_PAGE, RESOURCES, REVERSE};
use crate::written::Written;

operations! {
    /// list node pools
    ListNodePools {} -> Vec<NodePool> = get("/v1/node/pools", SHOWN).filterable().parameters(&[
        Parameter::text("prefix", "only names that begin with it"),
        PER_PAGE,
        NEXT_TOKEN,
        REVERSE,
    ]);
    /// create or change the node pool that the body names
    WriteNodePool {} (NodePoolRequest) -> Written = put("/v1/node/pools", WRITE_SOME_POOL);
    /// read a node pool
    ReadNodePool { name } -> NodePool = get("/v1/node/pool/{name}", READ_POOL);
    /// create or change a node pool
    UpdateNodePool { name } (NodePoolRequest) -> Written = put("/v1/node/pool/{name}", WRITE_POOL);
    /// delete a node pool that has no nodes and no jobs that are not over
    DeleteNodePool { name } -> Written = delete("/v1/node/pool/{name}", DELETE_POOL);
    /// list the nodes of a node pool
    NodePoolNodes { name } -> Vec<NodeListStub> = get("/v1/node/pool/{name}/nodes", POOL_NODES).filterable()
        .parameters(&[
            PER_PAGE,
            NEXT_TOKEN,
            REVERSE,
            RESOURCES,
            Parameter::flag("os", "with the attributes of the operating system"),
        ]);
    /// list the jobs of a node pool
    NodePoolJobs { name } -> Vec<JobListStub> = get("/v1/node/pool/{name}/jobs", READ_POOL).filterable()
        .parameters(&[
            PER_PAGE,
            NEXT_TOKEN,
            REVERSE,
            Parameter::flag("meta", "with the jobs' meta"),
        ]);
}

/// The body of [`WriteNodePool`] and [`UpdateNodePool`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodePoolRequest {
    /// Its name: letters, digits, hyphens, underscores, 128 bytes at most.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// A description of 256 bytes at most.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Keys and values of its users.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// Settings that replace those of the cluster.
    pub scheduler_configuration: Option<NodePoolScheduler>,
    /// Refused, unless it is 0: nodes have no identity tokens.
    #[serde(rename = "NodeIdentityTTL", skip_serializing_if = "Option::is_none")]
    pub node_identity_ttl: Option<serde_json::Value>,
}

/// A node pool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodePool {
    pub name: String,
    pub description: String,
    /// Keys and values of its users.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// Settings that replace those of the cluster.
    pub scheduler_configuration: Option<NodePoolScheduler>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// How the scheduler fills the nodes of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodePoolScheduler {
    /// `binpack` or `spread`; empty = as the cluster's.
    #[serde(deserialize_with = "or_default")]
    pub scheduler_algorithm: String,
    /// Whether `memory_max` above `memory` has an effect; `null` = as the cluster's.
    pub memory_oversubscription_enabled: Option<bool>,
}
