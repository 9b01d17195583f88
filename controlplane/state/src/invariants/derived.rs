//! What is derived is what a scan of the tables finds.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use protocol_model::{NodeId, SpecHash};

use super::{Found, Rule};
use crate::columns::{NodeColumns, NodeRow};
use crate::record::JobTally;
use crate::tables::Tables;

fn index_of<K: Ord + Clone, V: Ord + Clone>(
    pairs: impl Iterator<Item = (K, V)>,
) -> OrdMap<K, OrdSet<V>> {
    let mut index: OrdMap<K, OrdSet<V>> = OrdMap::new();
    for (key, value) in pairs {
        index.entry(key).or_default().insert(value);
    }
    index
}

pub(super) fn secondary_indexes(tables: &Tables, found: &mut Found) {
    let allocs = || tables.allocs();
    let mut same = |name: &'static str, same: bool| {
        found.unless(same, Rule::SecondaryIndex, || name.to_owned());
    };
    let by_job = index_of(allocs().map(|alloc| (alloc.job_key(), alloc.id)));
    same("allocations by job", by_job == tables.allocs_by_job);
    let by_node = index_of(allocs().map(|alloc| (alloc.node_id, alloc.id)));
    same("allocations by node", by_node == tables.allocs_by_node);
    let by_eval = index_of(allocs().map(|alloc| (alloc.eval_id, alloc.id)));
    same(
        "allocations by evaluation",
        by_eval == tables.allocs_by_eval,
    );
    let by_deployment =
        index_of(allocs().filter_map(|alloc| alloc.deployment_id.map(|id| (id, alloc.id))));
    same(
        "allocations by deployment",
        by_deployment == tables.allocs_by_deployment,
    );
    let evals = index_of(tables.evals().map(|eval| (eval.job_key(), eval.id)));
    same("evaluations by job", evals == tables.evals_by_job);
    let deployments = index_of(tables.deployments().map(|one| (one.job_key(), one.id)));
    same(
        "deployments by job",
        deployments == tables.deployments_by_job,
    );
    let per_node: OrdSet<_> = tables
        .jobs()
        .filter(|(_, job)| job.job_type.is_per_node())
        .map(|(key, _)| key.clone())
        .collect();
    same(
        "jobs that run on every node",
        per_node == tables.per_node_jobs,
    );
}

pub(super) fn tallies(tables: &Tables, found: &mut Found) {
    let mut recount: BTreeMap<_, JobTally> = BTreeMap::new();
    for alloc in tables.allocs() {
        let tally = recount.entry(alloc.job_key()).or_default();
        tally.allocs += 1;
        tally.allocs_live += u64::from(!alloc.terminal());
        let group = tally.groups.entry(alloc.task_group.clone()).or_default();
        *group.counter(alloc.client_status) += 1;
    }
    for eval in tables.evals() {
        let tally = recount.entry(eval.job_key()).or_default();
        tally.evals += 1;
        tally.evals_live += u64::from(!eval.status.is_terminal());
    }
    let stored: BTreeMap<_, JobTally> = tables
        .tallies
        .iter()
        .map(|(key, tally)| (key.clone(), JobTally::clone(tally)))
        .collect();
    found.unless(stored == recount, Rule::JobTally, || {
        let differs = |key: &&_| stored.get(*key) != recount.get(*key);
        let key = stored.keys().chain(recount.keys()).find(differs);
        format!("{key:?}")
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
