//! Node pools: made, changed, deleted.

use protocol_model::{Job, JobStatus, Node};

use super::draft::Draft;
use crate::applied::{Outcome, Refusal};
use crate::node_pool::NodePool;
use crate::tables::Tables;

impl Tables {
    /// Whether the job's pool exists.
    pub(super) fn check_pool_of_job(&self, job: &Job) -> Result<(), Refusal> {
        if job.node_pool.is_empty() || self.node_pool(&job.node_pool).is_some() {
            return Ok(());
        }
        Err(Refusal::JobInUnknownPool {
            job: job.id.clone(),
            pool: job.node_pool.clone(),
        })
    }

    /// Whether a node with these facts may be in the pool that it names.
    pub(super) fn check_pool_of_node(facts: Option<&Node>) -> Result<(), Refusal> {
        match facts {
            Some(node) if !NodePool::takes_nodes(&node.node_pool) => {
                Err(Refusal::PoolTakesNoNodes(node.node_pool.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Draft {
    pub(crate) fn node_pool_upsert(&mut self, mut pool: NodePool) -> Result<Outcome, Refusal> {
        if !NodePool::is_name(&pool.name) {
            return Err(Refusal::malformed("a node pool needs a name"));
        }
        if NodePool::is_built_in(&pool.name) {
            return Err(Refusal::PoolNotChangeable(pool.name));
        }
        let before = self.tables.node_pool(&pool.name);
        pool.create_index = before.map_or(self.index, |before| before.create_index);
        pool.modify_index = before.map_or(self.index, |before| before.modify_index);
        if before.is_some_and(|before| **before == pool) {
            return Ok(Outcome::NoOp);
        }
        pool.modify_index = self.index;
        self.tables.put_pool(pool);
        Ok(Outcome::Done)
    }

    pub(crate) fn node_pool_delete(&mut self, name: String) -> Result<Outcome, Refusal> {
        if NodePool::is_built_in(&name) {
            return Err(Refusal::PoolNotDeletable(name));
        }
        if self.tables.node_pool(&name).is_none() {
            return Err(Refusal::UnknownNodePool(name));
        }
        let mut nodes = self.tables.nodes();
        if nodes.any(|record| record.node.node_pool == name) {
            return Err(Refusal::PoolHasNodes(name));
        }
        let mut jobs = self.tables.jobs();
        if jobs.any(|(_, job)| job.node_pool == name && job.status != JobStatus::Dead) {
            return Err(Refusal::PoolHasJobs(name));
        }
        drop((nodes, jobs));
        self.tables.remove_pool(&name);
        Ok(Outcome::Done)
    }
}
