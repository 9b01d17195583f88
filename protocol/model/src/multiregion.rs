//! Deployment of one job over several regions. Stored as given: regions are not federated yet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::nullable;
use crate::nullable::or_default;

/// How a job is rolled out over regions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Multiregion {
    /// Order and reaction to failure.
    pub strategy: Option<MultiregionStrategy>,
    /// The regions in order.
    #[serde(with = "nullable")]
    pub regions: Vec<MultiregionRegion>,
}

/// Order and reaction to failure of a multi-region rollout.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MultiregionStrategy {
    /// Regions deployed at the same time; 0 is all.
    pub max_parallel: Option<u32>,
    /// `""`, `fail_all` or `fail_local`.
    #[serde(deserialize_with = "or_default")]
    pub on_failure: String,
}

/// One region of a multi-region job.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MultiregionRegion {
    /// The region's name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The count of groups that have none.
    pub count: Option<u32>,
    /// Its datacenters.
    #[serde(with = "nullable")]
    pub datacenters: Vec<String>,
    /// Its node pool.
    #[serde(deserialize_with = "or_default")]
    pub node_pool: String,
    /// Metadata that is added there.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
}
