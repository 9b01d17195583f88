//! What is derived is what a scan of the tables finds.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use protocol_model::{JobKey, NodeId, SpecHash};

use super::{Found, Rule};
use crate::columns::{NodeColumns, NodeRow};
use crate::tables::{AllocTally, Children, EvalTally, Tables, parent_of, signed_live};

/// Whether an index is what a scan of its table finds: each of its ids is a row that belongs there,
/// no set is empty, and it has as many ids as there are `rows` to be found. A row belongs to one
/// key and a set has an id once, so that nothing is left out where the numbers are equal.
pub(super) fn is_index<K: Ord, V: Ord>(
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
    let mut rows = 0;
    let by_job = tables.eval_tallies.iter().all(|(key, tally)| {
        tables.evals_of(tally).all(|eval| {
            rows += 1;
            is_key(key, &eval.namespace, &eval.job_id)
        })
    });
    let slots = tables.evals_by_job.len();
    let by_job = by_job && rows == tables.evals.len() && rows == slots;
    same("evaluations by job", by_job);
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
    for (key, stored) in &tables.alloc_tallies {
        // No scan finds the index at which an allocation went.
        let mut counted = AllocTally {
            moved: stored.moved,
            ..AllocTally::default()
        };
        for alloc in tables.allocs_by_job(key) {
            counted.count(alloc);
        }
        let same = **stored == counted && stored.all > 0;
        found.unless(same, Rule::JobTally, || format!("allocations of {key:?}"));
    }
    for key in tables.allocs_by_job.keys() {
        let counted = tables.alloc_tallies.contains_key(key);
        found.unless(counted, Rule::JobTally, || {
            format!("allocations of {key:?} are not counted")
        });
    }
    for (key, stored) in &tables.eval_tallies {
        let mut counted = EvalTally::of_job(stored.number);
        for eval in tables.evals_of(stored) {
            counted.count(eval.status);
        }
        let same = *stored == counted && stored.all > 0;
        found.unless(same, Rule::JobTally, || format!("evaluations of {key:?}"));
    }
}

/// Live allocations per root key.
pub(super) fn live_by_key(tables: &Tables, found: &mut Found) {
    let mut counted: OrdMap<u32, u64> = OrdMap::new();
    for key in tables.allocs.values().filter_map(signed_live) {
        *counted.entry(key).or_default() += 1;
    }
    let same = counted == tables.live_by_key;
    found.unless(same, Rule::SecondaryIndex, || {
        format!("live allocations by root key: {:?}", tables.live_by_key)
    });
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
