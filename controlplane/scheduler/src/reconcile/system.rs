//! Reconciliation of system and sysbatch jobs: one allocation of each group on every node that may
//! have it.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::Snapshot;
use protocol_model::{Allocation, ClientStatus, Job, JobType, NodeId, TaskGroup};

use super::{Buckets, Difference, Taint, Wanted, difference};

/// Stops of allocations on nodes that may not have them any more.
const NOT_HERE: &str = "alloc not needed as node is not feasible";

/// Sorts the group's allocations and says on which of the `feasible` nodes one is missing.
pub(crate) fn system(
    snapshot: &Snapshot,
    job: &Job,
    group: &TaskGroup,
    existing: &[Arc<Allocation>],
    feasible: &BTreeMap<NodeId, bool>,
) -> Buckets {
    let mut buckets = Buckets::default();
    // Newest first: of two on one node the older one goes.
    let mut sorted: Vec<&Arc<Allocation>> = existing.iter().collect();
    sorted.sort_by_key(|alloc| std::cmp::Reverse((alloc.create_index, alloc.id)));
    let mut covered: BTreeMap<NodeId, ()> = BTreeMap::new();
    for alloc in sorted {
        if done(snapshot, job, alloc) {
            covered.insert(alloc.node_id, ());
            buckets.keep.push(Arc::clone(alloc));
        } else if alloc.terminal() {
            buckets.ignore.push(Arc::clone(alloc));
        } else {
            stands(snapshot, job, alloc, feasible, &mut covered, &mut buckets);
        }
    }
    let name = Allocation::name_of(&job.id, &group.name, 0);
    for (node, ready) in feasible {
        if *ready && !covered.contains_key(node) {
            let wanted = Wanted {
                node: Some(*node),
                ..Wanted::new(name.clone())
            };
            buckets.place.push(wanted);
        }
    }
    buckets
}

fn stands(
    snapshot: &Snapshot,
    job: &Job,
    alloc: &Arc<Allocation>,
    feasible: &BTreeMap<NodeId, bool>,
    covered: &mut BTreeMap<NodeId, ()>,
    buckets: &mut Buckets,
) {
    match Taint::on(snapshot, alloc) {
        Taint::Gone => return buckets.lost.push(Arc::clone(alloc)),
        Taint::Disconnected if alloc.client_status == ClientStatus::Unknown => {
            covered.insert(alloc.node_id, ());
            return buckets.keep.push(Arc::clone(alloc));
        }
        Taint::Disconnected => {
            covered.insert(alloc.node_id, ());
            return buckets.disconnect.push(Arc::clone(alloc));
        }
        // A drain takes system jobs last, and an operator's word decides.
        Taint::Draining | Taint::None => {}
    }
    if alloc.desired_transition.should_migrate() {
        return buckets
            .stop
            .push((Arc::clone(alloc), "alloc is being migrated"));
    }
    if covered.insert(alloc.node_id, ()).is_some() || !feasible.contains_key(&alloc.node_id) {
        return buckets.stop.push((Arc::clone(alloc), NOT_HERE));
    }
    if alloc.needs_reconnect() {
        return buckets.reconnect.push(Arc::clone(alloc));
    }
    match change(snapshot, job, alloc) {
        Difference::None => buckets.keep.push(Arc::clone(alloc)),
        Difference::InPlace => buckets.in_place.push(Arc::clone(alloc)),
        Difference::Destructive => {
            let wanted = Wanted {
                node: Some(alloc.node_id),
                ..Wanted::replacing(alloc.name.clone(), alloc)
            };
            buckets.place.push(wanted);
            buckets.destructive.push(Arc::clone(alloc));
        }
    }
}

/// A sysbatch allocation that ran to its end counts for the version it ran, and a failed one too:
/// it is not tried on the same node again.
fn done(snapshot: &Snapshot, job: &Job, alloc: &Allocation) -> bool {
    job.job_type == JobType::Sysbatch
        && !alloc.server_terminal()
        && alloc.client_terminal()
        && alloc.client_status != ClientStatus::Lost
        && change(snapshot, job, alloc) != Difference::Destructive
}

fn change(snapshot: &Snapshot, job: &Job, alloc: &Allocation) -> Difference {
    if alloc.job_create_index == job.create_index && alloc.job_version == job.version {
        return Difference::None;
    }
    let Some(old) = snapshot.spec(alloc.spec) else {
        return Difference::Destructive;
    };
    match difference(old, job, &alloc.task_group) {
        Difference::None => Difference::InPlace,
        other @ (Difference::InPlace | Difference::Destructive) => other,
    }
}
