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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;

    #[test]
    fn a_checkpoint_without_pools_gets_those_of_nodes_and_jobs() {
        let checkpoint = include_bytes!("../../tests/golden/v2/checkpoint.bin");
        let state = State::restore(checkpoint.as_slice()).expect("a state");
        let mut tables = state.into_tables();
        let names = |tables: &Tables| tables.node_pools.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&tables), ["all", "default"]);
        let all = tables.node_pool("all").expect("the pool");
        assert_eq!(all.create_index, tables.cluster.index);
        // As it would be of a job in another pool.
        tables.node_pools.clear();
        let (key, record) = tables.jobs.get_min().expect("a job").clone();
        let mut record = crate::record::JobRecord::clone(&record);
        let mut job = protocol_model::Job::clone(&record.job);
        job.node_pool = "night".to_owned();
        let created = job.create_index;
        record.job = Arc::new(job);
        tables.jobs.insert(key, Arc::new(record));
        tables.add_missing_pools();
        assert_eq!(names(&tables), ["all", "default", "night"]);
        let night = tables.node_pool("night").expect("the pool");
        assert_eq!((night.create_index, night.modify_index), (created, created));
    }
}
