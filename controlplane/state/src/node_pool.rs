//! Node pools: disjoint sets of nodes, each with settings of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::{SchedulerAlgorithm, SchedulerConfig};
use crate::tables::Tables;

/// The pool that stands for the nodes of all pools. No node is in it.
pub const POOL_ALL: &str = "all";
/// The pool of nodes and jobs that name none.
pub const POOL_DEFAULT: &str = "default";
/// The longest name of a pool, in bytes.
pub const POOL_NAME_LEN_MAX: usize = 128;

/// A node pool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodePool {
    /// Its name.
    pub name: String,
    /// Its purpose, for people.
    #[serde(default)]
    pub description: String,
    /// Its operator's own key-value pairs. The scheduler does not read them.
    #[serde(default)]
    pub meta: BTreeMap<String, String>,
    /// How the scheduler fills its nodes; `None` as the cluster's configuration says.
    #[serde(default)]
    pub scheduler: Option<PoolScheduler>,
    /// The log index that made it.
    #[serde(default)]
    pub create_index: u64,
    /// The log index that last changed it.
    #[serde(default)]
    pub modify_index: u64,
}

/// Settings of a pool that replace the cluster's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolScheduler {
    /// How nodes are filled; `None` as the cluster's configuration says.
    pub algorithm: Option<SchedulerAlgorithm>,
    /// Whether tasks may use memory beyond what is reserved for them; `None` as the cluster's
    /// configuration says.
    pub memory_oversubscription: Option<bool>,
}

impl NodePool {
    /// A pool without settings, made at `index`.
    pub(crate) fn new(name: &str, index: u64) -> Self {
        Self {
            name: name.to_owned(),
            create_index: index,
            modify_index: index,
            ..Self::default()
        }
    }

    /// The pools that every cluster has.
    pub(crate) fn built_in(index: u64) -> [Self; 2] {
        let pool = |name, description: &str| Self {
            description: description.to_owned(),
            ..Self::new(name, index)
        };
        [
            pool(POOL_ALL, "Node pool with all nodes in the cluster."),
            pool(POOL_DEFAULT, "Default node pool."),
        ]
    }

    /// Whether every cluster has it: it can neither be changed nor deleted.
    pub fn is_built_in(name: &str) -> bool {
        matches!(name, POOL_ALL | POOL_DEFAULT)
    }

    /// Whether a pool may have this name.
    pub fn is_name(name: &str) -> bool {
        let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
        !name.is_empty() && name.len() <= POOL_NAME_LEN_MAX && name.bytes().all(allowed)
    }

    /// Whether a node may be in a pool of this name.
    pub fn takes_nodes(name: &str) -> bool {
        name != POOL_ALL && Self::is_name(name)
    }
}

impl Tables {
    /// The scheduler's configuration for jobs of the pool `name`: the cluster's, with the settings
    /// that the pool replaces. An unknown pool replaces none.
    pub fn scheduler_config_of_pool(&self, name: &str) -> SchedulerConfig {
        let mut config = *self.scheduler_config();
        let pool = self.node_pool(name).and_then(|pool| pool.scheduler);
        if let Some(PoolScheduler {
            algorithm,
            memory_oversubscription,
        }) = pool
        {
            config.algorithm = algorithm.unwrap_or(config.algorithm);
            config.memory_oversubscription =
                memory_oversubscription.unwrap_or(config.memory_oversubscription);
        }
        config
    }
}
