//! Two states side by side.

use std::collections::BTreeMap;

use protocol_model::SpecHash;

use super::derived::resolved_rows;
use crate::tables::Tables;

/// The first difference between two states, in words: what replicas and restored states are
/// compared by.
pub fn difference(left: &Tables, right: &Tables) -> Option<&'static str> {
    let rows = |tables: &Tables| resolved_rows(&tables.columns);
    let specs = |tables: &Tables| -> BTreeMap<SpecHash, u64> {
        tables
            .specs
            .iter()
            .map(|(hash, spec)| (*hash, spec.references))
            .collect()
    };
    let (mine, other) = (&left.access, &right.access);
    let checks: [(&'static str, bool); 29] = [
        ("index", left.index == right.index),
        ("log offset", left.log_offset == right.log_offset),
        (
            "checkpoint version",
            left.checkpoint_version() == right.checkpoint_version(),
        ),
        ("time", left.now == right.now),
        (
            "pending restore",
            left.pending_restore == right.pending_restore,
        ),
        ("table indexes", left.table_indexes == right.table_indexes),
        ("cluster", left.cluster == right.cluster),
        (
            "scheduler configuration",
            left.scheduler_config == right.scheduler_config,
        ),
        ("nodes", left.nodes == right.nodes),
        ("jobs", left.jobs == right.jobs),
        ("job versions", left.job_versions == right.job_versions),
        ("evaluations", left.evals == right.evals),
        ("allocations", left.allocs == right.allocs),
        ("deployments", left.deployments == right.deployments),
        ("namespaces", left.namespaces == right.namespaces),
        ("node pools", left.node_pools == right.node_pools),
        (
            "bootstrap of access control",
            left.acl_bootstrap_index == right.acl_bootstrap_index,
        ),
        ("access tokens", mine.tokens == other.tokens),
        ("access policies", mine.policies == other.policies),
        ("access roles", mine.roles == other.roles),
        ("auth methods", mine.auth_methods == other.auth_methods),
        ("binding rules", mine.binding_rules == other.binding_rules),
        (
            "one-time tokens",
            mine.one_time_tokens == other.one_time_tokens,
        ),
        ("root keys", mine.root_keys == other.root_keys),
        (
            "numbers of root keys",
            mine.root_keys_numbered == other.root_keys_numbered,
        ),
        ("variables", left.variables.rows == right.variables.rows),
        (
            "beginning of identities",
            mine.identities_begun == other.identities_begun,
        ),
        ("specifications", specs(left) == specs(right)),
        ("node columns", rows(left) == rows(right)),
    ];
    checks
        .into_iter()
        .find(|(_, same)| !same)
        .map(|(name, _)| name)
}
