//! Node pools.

use std::sync::Arc;

use protocol_model::Node;

use super::{Table, Tables};
use crate::node_pool::{NodePool, POOL_ALL};

impl Tables {
    pub(crate) fn put_pool(&mut self, pool: NodePool) {
        self.touch(Table::NodePools);
        self.node_pools.insert(pool.name.clone(), Arc::new(pool));
    }

    pub(crate) fn remove_pool(&mut self, name: &str) {
        if self.node_pools.remove(name).is_some() {
            self.touch(Table::NodePools);
        }
    }

    /// A node that names an unknown pool makes it.
    pub(super) fn make_pool_of(&mut self, node: &Node) {
        if !self.node_pools.contains_key(&node.node_pool) {
            self.put_pool(NodePool::new(&node.node_pool, node.modify_index));
        }
    }

    /// Adds the pools that a checkpoint of an older release does not have: those that are built in,
    /// and those of its jobs. Its nodes made theirs.
    pub(crate) fn add_missing_pools(&mut self) {
        if self.cluster.incarnation.is_none() || self.node_pools.contains_key(POOL_ALL) {
            return;
        }
        for pool in NodePool::built_in(self.cluster.index) {
            self.put_pool(pool);
        }
        let jobs: Vec<_> = self.jobs().map(|(_, job)| Arc::clone(job)).collect();
        for job in jobs {
            if !job.node_pool.is_empty() && !self.node_pools.contains_key(&job.node_pool) {
                self.put_pool(NodePool::new(&job.node_pool, job.create_index));
            }
        }
    }
}
