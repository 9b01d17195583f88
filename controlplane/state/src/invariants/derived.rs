//! What is derived is what a scan of the tables finds.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use protocol_model::{JobKey, NodeId, SpecHash};

use super::{Found, Rule};
use crate::columns::{NodeColumns, NodeRow};
use crate::record::JobTally;
use crate::tables::{Children, Tables, parent_of};

/// Whether an index is what a scan of its table finds: each of its ids is a row that belongs there,
/// no set is empty, and it has as many ids as there are `rows` to be found. A row belongs to one
/// key and a set has an id once, so that nothing is left out where the numbers are equal.
fn is_index<K: Ord, V: Ord>(
    index: &OrdMap<K, OrdSet<V>>,
    rows: usize,
    belongs: impl Fn(&K, &V) -> bool,
) -> bool {
    let mut ids = 0;
    let each = index.iter().all(|(key, set)| {
        ids += set.len();
        !set.is_empty() && set.iter().all(|id| belongs(key, id))
    });
    each && ids == rows
}

fn is_key(key: &JobKey, namespace: &str, job_id: &str) -> bool {
    key.namespace == namespace && key.id == job_id
}

pub(super) fn secondary_indexes(tables: &Tables, found: &mut Found) {
    let mut same = |name: &'static str, same: bool| {
        found.unless(same, Rule::SecondaryIndex, || name.to_owned());
    };
    let rows = tables.allocs.len();
    let by_job = is_index(&tables.allocs_by_job, rows, |key, id| {
        let alloc = tables.alloc(*id);
        alloc.is_some_and(|it| is_key(key, &it.namespace, &it.job_id))
    });
    same("allocations by job", by_job);
    let by_node = is_index(&tables.allocs_by_node, rows, |node, id| {
        tables.alloc(*id).is_some_and(|it| it.node_id == *node)
    });
    same("allocations by node", by_node);
    let by_eval = is_index(&tables.allocs_by_eval, rows, |eval, id| {
        tables.alloc(*id).is_some_and(|it| it.eval_id == *eval)
    });
    same("allocations by evaluation", by_eval);
    let deployed = tables.allocs().filter(|it| it.deployment_id.is_some());
    let by_deployment = is_index(
        &tables.allocs_by_deployment,
        deployed.count(),
        |deployment, id| {
            let alloc = tables.alloc(*id);
            alloc.is_some_and(|it| it.deployment_id == Some(*deployment))
        },
    );
    same("allocations by deployment", by_deployment);
    let slots = &tables.eval_slots;
    let in_place = slots.iter().all(|(id, index)| {
        let eval = tables.evals.get(&(*index, *id));
        eval.is_some_and(|it| it.id == *id && it.create_index == *index)
    });
    let in_place = in_place && slots.len() == tables.evals.len();
    same("evaluations by id", in_place);
    let evals = is_index(&tables.evals_by_job, tables.evals.len(), |key, slot| {
        let eval = tables.evals.get(slot);
        eval.is_some_and(|it| is_key(key, &it.namespace, &it.job_id))
    });
    same("evaluations by job", evals);
    let rows = tables.deployments.len();
    let deployments = is_index(&tables.deployments_by_job, rows, |key, id| {
        let deployment = tables.deployment(*id);
        deployment.is_some_and(|it| is_key(key, &it.namespace, &it.job_id))
    });
    same("deployments by job", deployments);
    let per_node: OrdSet<_> = tables
        .jobs()
        .filter(|(_, job)| job.runs_on_every_node())
        .map(|(key, _)| key.clone())
        .collect();
    same(
        "jobs that run on every node",
        per_node == tables.per_node_jobs,
    );
}

/// Counts by the indexes, which [`secondary_indexes`] compares with the tables.
pub(super) fn tallies(tables: &Tables, found: &mut Found) {
    for (key, stored) in &tables.tallies {
        let mut counted = recount(tables, key);
        // Of what is gone no scan tells when it went.
        counted.allocs_moved = stored.allocs_moved;
        found.unless(**stored == counted, Rule::JobTally, || format!("{key:?}"));
        found.unless(!stored.is_empty(), Rule::JobTally, || {
            format!("{key:?} has nothing to count")
        });
    }
    let counted = tables
        .allocs_by_job
        .keys()
        .chain(tables.evals_by_job.keys().map(AsRef::as_ref));
    for key in counted {
        found.unless(tables.tallies.contains_key(key), Rule::JobTally, || {
            format!("{key:?} is not counted")
        });
    }
}

pub(super) fn children(tables: &Tables, found: &mut Found) {
    let mut counted: OrdMap<JobKey, Children> = OrdMap::new();
    for (_, job) in tables.jobs() {
        if let Some(parent) = parent_of(job) {
            counted.entry(parent).or_default().count(job);
        }
    }
    found.unless(counted == tables.children, Rule::Children, || {
        format!("{:?} against {counted:?}", tables.children)
    });
}

fn recount(tables: &Tables, key: &JobKey) -> JobTally {
    let mut tally = JobTally::default();
    for alloc in tables.allocs_by_job(key) {
        tally.allocs += 1;
        tally.allocs_live += u64::from(!alloc.terminal());
        let group = match tally.groups.get_mut(&alloc.task_group) {
            Some(group) => group,
            None => tally.groups.entry(alloc.task_group.clone()).or_default(),
        };
        *group.counter(alloc.client_status) += 1;
    }
    for eval in tables.evals_by_job(key) {
        tally.count_eval(eval.status);
    }
    tally
}

pub(super) fn spec_references(tables: &Tables, found: &mut Found) {
    let mut recount: BTreeMap<SpecHash, u64> = BTreeMap::new();
    let of_versions = tables
        .job_versions
        .values()
        .flat_map(|versions| versions.values());
    let references = tables
        .allocs()
        .map(|alloc| alloc.spec)
        .chain(of_versions.map(|record| record.spec))
        .chain(tables.deployments.values().filter_map(|record| record.spec));
    for spec in references {
        *recount.entry(spec).or_default() += 1;
    }
    let stored: BTreeMap<SpecHash, u64> = tables
        .specs
        .iter()
        .map(|(hash, spec)| (*hash, spec.references))
        .collect();
    found.unless(stored == recount, Rule::SpecReferences, || {
        let differs = |hash: &&_| stored.get(*hash) != recount.get(*hash);
        format!("{:?}", stored.keys().chain(recount.keys()).find(differs))
    });
}

pub(super) type ResolvedRow = (NodeRow, [Arc<str>; 3]);

/// Rows without what depends on history: slots and the numbers of names.
pub(super) fn resolved_rows(columns: &NodeColumns) -> BTreeMap<NodeId, ResolvedRow> {
    columns
        .rows()
        .map(|(_, row)| {
            let names = [row.class, row.datacenter, row.pool].map(|name| columns.name(name));
            let mut row = row.clone();
            (row.class, row.datacenter, row.pool) = Default::default();
            (row.node, (row, names))
        })
        .collect()
}

pub(super) fn columns(tables: &Tables, found: &mut Found) {
    let mut recomputed = NodeColumns::default();
    for record in tables.nodes() {
        recomputed.put_node(&record.node, || tables.usage_of_node(record.node.id));
    }
    let stored = resolved_rows(&tables.columns);
    let recomputed = resolved_rows(&recomputed);
    found.unless(stored == recomputed, Rule::NodeColumns, || {
        let differs = |node: &&_| stored.get(*node) != recomputed.get(*node);
        match stored.keys().chain(recomputed.keys()).find(differs) {
            Some(node) => format!("{:?} against {:?}", stored.get(node), recomputed.get(node)),
            None => String::new(),
        }
    });
}
