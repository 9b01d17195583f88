//! Nodes with their columns, and deployments.

use std::sync::Arc;

use protocol_model::{DeploymentId, NodeId};

use super::{Table, Tables, index_insert, index_remove};
use crate::record::{DeploymentRecord, NodeRecord};
use crate::usage::Usage;

impl Tables {
    pub(crate) fn put_node(&mut self, record: NodeRecord) {
        self.touch(Table::Nodes);
        self.make_pool_of(&record.node);
        let mut columns = std::mem::take(&mut self.columns);
        columns.put_node(&record.node, || self.usage_of_node(record.node.id));
        self.columns = columns;
        self.nodes.insert(record.node.id, Arc::new(record));
    }

    /// Changes what no reader of the API sees of a node (its session's counters): the table's index
    /// stays, so that no blocking query wakes.
    pub(crate) fn put_node_quietly(&mut self, record: NodeRecord) {
        self.nodes.insert(record.node.id, Arc::new(record));
    }

    pub(crate) fn remove_node(&mut self, id: NodeId) {
        if self.nodes.remove(&id).is_some() {
            self.touch(Table::Nodes);
            self.columns.remove_node(id);
        }
    }

    /// What the allocations of a node take, and how many of them do, from the allocations
    /// themselves.
    pub(crate) fn usage_of_node(&self, node: NodeId) -> (Usage, u32) {
        let mut used = Usage::default();
        let mut holding = 0;
        for alloc in self.allocs_on_node(node).filter(|it| it.holds_room()) {
            used.add(&Usage::of(&alloc.allocated_resources));
            holding += 1;
        }
        (used, holding)
    }

    pub(crate) fn put_deployment(&mut self, record: DeploymentRecord) {
        self.touch(Table::Deployments);
        let id = record.deployment.id;
        index_insert(
            &mut self.deployments_by_job,
            &record.deployment.job_key(),
            id,
        );
        if let Some(spec) = record.spec {
            self.acquire_spec(spec);
        }
        if let Some(spec) = self
            .deployments
            .insert(id, record)
            .and_then(|before| before.spec)
        {
            self.release_spec(spec);
        }
    }

    pub(crate) fn remove_deployment(&mut self, id: DeploymentId) {
        let Some(record) = self.deployments.remove(&id) else {
            return;
        };
        self.touch(Table::Deployments);
        index_remove(
            &mut self.deployments_by_job,
            &record.deployment.job_key(),
            &id,
        );
        if let Some(spec) = record.spec {
            self.release_spec(spec);
        }
    }
}
