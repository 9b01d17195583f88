//! What holds of each row: statuses, sessions, indexes, room.

use protocol_model::{DrainStatus, Eligibility, NodeStatus};

use super::{Found, Rule};
use crate::apply::job_status;
use crate::fit::Exhausted;
use crate::node_pool::{POOL_ALL, POOL_DEFAULT};
use crate::record::SessionEpoch;
use crate::tables::{Table, Tables};
use crate::usage::Usage;

/// A node's facts may shrink under its allocations; a placement after that would be ours. What is
/// being stopped holds its room beside the successor that its own plan placed.
pub(super) fn over_commitment(tables: &Tables, found: &mut Found) {
    for record in tables.nodes() {
        let id = record.node.id;
        let placed_since = tables
            .allocs_on_node(id)
            .any(|alloc| !alloc.terminal() && alloc.create_index > record.facts_index);
        let Some(row) = tables.columns.row(id) else {
            continue;
        };
        if !placed_since {
            continue;
        }
        let mut wanted = row.used.clone();
        let on_node = tables.allocs_on_node(id);
        for leaving in on_node.filter(|it| it.server_terminal() && it.holds_room()) {
            wanted.subtract(&Usage::of(&leaving.allocated_resources));
        }
        let beyond = crate::fit::fits(&row.capacity, &Usage::default(), &wanted);
        found.unless(beyond.is_ok(), Rule::OverCommitment, || {
            format!("node {id}: {:?}", beyond.err().unwrap_or(Exhausted::Cpu))
        });
    }
}

pub(super) fn job_statuses(tables: &Tables, found: &mut Found) {
    for (key, job) in tables.jobs() {
        let derived = job_status(job, tables.job_tally(key));
        found.unless(job.status == derived, Rule::JobStatus, || {
            format!("job {key} is {}, should be {derived}", job.status)
        });
        let spec = tables.job_spec(key);
        let newest = tables.job_versions(key).next();
        let same = newest.is_some_and(|newest| newest.version == job.version)
            && spec.is_some_and(|spec| tables.spec(spec).is_some());
        found.unless(same, Rule::JobStatus, || {
            format!("job {key}: newest version is missing")
        });
    }
}

pub(super) fn node_drains(tables: &Tables, found: &mut Found) {
    for record in tables.nodes() {
        let node = &record.node;
        let last = node.last_drain.as_ref().map(|last| last.status);
        let draining = node.drain_strategy.is_some();
        let holds = node.drain == draining
            && draining == (last == Some(DrainStatus::Draining))
            && !(draining && node.scheduling_eligibility == Eligibility::Eligible);
        found.unless(holds, Rule::NodeDrain, || {
            format!("node {}: last drain {last:?}", node.id)
        });
    }
}

pub(super) fn node_pools(tables: &Tables, found: &mut Found) {
    if tables.cluster.incarnation.is_none() {
        return;
    }
    let built_in = [POOL_ALL, POOL_DEFAULT].into_iter();
    let of_nodes = tables.nodes().map(|record| record.node.node_pool.as_str());
    for name in built_in.chain(of_nodes) {
        let is_there = tables.node_pool(name).is_some();
        found.unless(is_there, Rule::NodePools, || format!("no pool {name:?}"));
    }
}

pub(super) fn node_sessions(tables: &Tables, found: &mut Found) {
    for record in tables.nodes() {
        let node = &record.node;
        let session = &record.session;
        let in_session = session.epoch != SessionEpoch::NONE;
        let synced = session.synced_index != 0;
        let heard = record.fell_silent_at.is_none();
        let agrees = match node.status {
            NodeStatus::Ready => {
                in_session && synced && heard && node.last_missed_heartbeat_index == 0
            }
            NodeStatus::Initializing => !synced && heard,
            NodeStatus::Disconnected | NodeStatus::Down => node.last_missed_heartbeat_index != 0,
        };
        found.unless(agrees, Rule::NodeSession, || {
            format!(
                "node {}: {} with {session:?}",
                node.id,
                node.status.as_str()
            )
        });
    }
}

pub(super) fn row_indexes(tables: &Tables, found: &mut Found) {
    let index = tables.index;
    for alloc in tables.allocs() {
        let ordered = alloc.create_index <= alloc.alloc_modify_index
            && alloc.alloc_modify_index <= alloc.modify_index
            && alloc.modify_index <= index
            && alloc.create_index > 0;
        found.unless(ordered, Rule::RowIndexes, || {
            format!("allocation {}", alloc.id)
        });
        found.unless(alloc.job.is_none(), Rule::RowIndexes, || {
            format!("allocation {} carries its job", alloc.id)
        });
    }
    for eval in tables.evals() {
        let ordered = eval.create_index > 0
            && eval.create_index <= eval.modify_index
            && eval.modify_index <= index;
        found.unless(ordered, Rule::RowIndexes, || {
            format!("evaluation {}", eval.id)
        });
    }
    for table in Table::ALL {
        found.unless(
            tables.table_index(&[table]) <= index,
            Rule::RowIndexes,
            || format!("table {table:?}"),
        );
    }
}

pub(super) fn deployment_counters(tables: &Tables, found: &mut Found) {
    for deployment in tables.deployments() {
        for (name, group) in &deployment.task_groups {
            let members = tables
                .allocs_by_deployment(deployment.id)
                .filter(|alloc| alloc.task_group == *name)
                .count();
            let judged = u64::from(group.healthy_allocs) + u64::from(group.unhealthy_allocs);
            let adds_up = u64::from(group.placed_allocs) >= members as u64
                && judged <= u64::from(group.placed_allocs);
            found.unless(adds_up, Rule::DeploymentCounters, || {
                format!("deployment {} group {name}", deployment.id)
            });
        }
    }
}
