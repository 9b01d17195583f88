//! Which nodes a job is about at all: its pool, its datacenters.

use std::sync::Arc;

use controlplane_state::{NodeRecord, NodeRow, Readiness, Snapshot, datacenter_matches};
use protocol_model::{AllocMetric, Job, Node, NodeId};

/// A node in the job's pool and datacenters that may be placed on.
pub(super) type Candidate<'a> = (&'a NodeRow, &'a Arc<NodeRecord>);

/// Nodes in the job's pool and datacenters that may be placed on; counted for the explanation. In
/// the order of their ids, which ties are drawn in: that of the rows is history.
pub(super) fn candidates<'s>(
    snapshot: &'s Snapshot,
    job: &Job,
    only: Option<NodeId>,
    metrics: &mut AllocMetric,
) -> Vec<Candidate<'s>> {
    let columns = snapshot.node_columns();
    let records: Vec<&Arc<NodeRecord>> = match only {
        Some(node) => snapshot.node(node).into_iter().collect(),
        None => snapshot.nodes().collect(),
    };
    let mut found = Vec::new();
    for record in records {
        let row = columns.row(record.node.id);
        let Some(row) = row.filter(|row| row.readiness == Readiness::Ready) else {
            continue;
        };
        if !in_pool(job, &record.node) {
            continue;
        }
        metrics.nodes_in_pool += 1;
        if in_datacenters(job, &record.node) {
            let datacenter = record.node.datacenter.as_str();
            match metrics.nodes_available.get_mut(datacenter) {
                Some(count) => *count += 1,
                None => {
                    metrics.nodes_available.insert(datacenter.to_owned(), 1);
                }
            }
            found.push((row, record));
        }
    }
    found
}

/// Whether a node is in the job's pool and datacenters.
pub(crate) fn in_scope(job: &Job, node: &Node) -> bool {
    in_pool(job, node) && in_datacenters(job, node)
}

/// Whether a node is in the job's pool.
pub(crate) fn in_pool(job: &Job, node: &Node) -> bool {
    matches!(job.node_pool.as_str(), "all" | "") || job.node_pool == node.node_pool
}

/// Whether a node is in one of the job's datacenters.
pub(crate) fn in_datacenters(job: &Job, node: &Node) -> bool {
    job.datacenters.is_empty()
        || job
            .datacenters
            .iter()
            .any(|pattern| datacenter_matches(pattern, &node.datacenter))
}
