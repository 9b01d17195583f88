//! `/v1/search`: ids by their beginning, over several kinds of object.

use std::collections::BTreeMap;

use controlplane_state::{IdPrefix, Snapshot, Table, VariableKey};
use protocol_access::{Level, NodePoolCapability, VariableCapability};
use protocol_api::search::{Matches, Search, SearchRequest};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::query::Namespaces;
use super::route::{Routes, routes};

/// Matches per kind; whether there were more is told.
pub(super) const MATCHES_MAX: usize = 20;

const JOBS: &str = "jobs";
pub(super) const EVALS: &str = "evals";
const ALLOCS: &str = "allocs";
const NODES: &str = "nodes";
pub(super) const DEPLOYMENTS: &str = "deployment";
pub(super) const NODE_POOLS: &str = "node_pools";
const NAMESPACES: &str = "namespaces";
pub(super) const VARIABLES: &str = "vars";
/// What can be searched, by the names that clients use.
const CONTEXTS: [&str; 8] = [
    JOBS,
    EVALS,
    ALLOCS,
    NODES,
    NODE_POOLS,
    DEPLOYMENTS,
    NAMESPACES,
    VARIABLES,
];
const TABLES: [Table; 8] = [
    Table::Jobs,
    Table::Evals,
    Table::Allocs,
    Table::Nodes,
    Table::NodePools,
    Table::Deployments,
    Table::Namespaces,
    Table::Variables,
];

pub(super) const ROUTES: Routes = routes![Search => search];

async fn search(ask: &Ask) -> Answered {
    let request: SearchRequest = ask.json()?;
    let contexts: Vec<&'static str> = match request.context.as_str() {
        "" | "all" => CONTEXTS.to_vec(),
        name => {
            let known = CONTEXTS.iter().find(|context| **context == name);
            let words = || format!("context must be one of {CONTEXTS:?} or \"all\", not {name:?}");
            vec![known.ok_or_else(|| HttpError::bad_request(words()))?]
        }
    };
    let snapshot = ask.snapshot(&TABLES).await?;
    let index = snapshot.table_index(&TABLES);
    let (mut matches, mut truncations) = (BTreeMap::new(), BTreeMap::new());
    for context in contexts {
        let mut found = find(&snapshot, context, &request.prefix, ask.namespaces());
        truncations.insert(context.to_owned(), found.len() > MATCHES_MAX);
        found.truncate(MATCHES_MAX);
        if !found.is_empty() {
            matches.insert(context.to_owned(), found);
        }
    }
    ask.answer(
        &Matches {
            matches,
            truncations,
            index,
        },
        index,
    )
}

/// The variables whose path begins so and that the caller may list.
pub(super) fn variables<'a>(
    snapshot: &'a Snapshot,
    prefix: &'a str,
    namespaces: Namespaces<'a>,
) -> impl Iterator<Item = &'a VariableKey> + 'a {
    let acl = namespaces.acl();
    let rows = snapshot.variables_from(VariableKey::new("", ""));
    let keys = rows.map(|row| &row.key);
    keys.filter(move |VariableKey { namespace, path }| {
        path.starts_with(prefix)
            && namespaces.one().is_none_or(|one| one == namespace)
            && acl.variable(namespace, path, VariableCapability::List)
    })
}

/// At most one more than is shown.
pub(super) fn find(
    snapshot: &Snapshot,
    context: &str,
    prefix: &str,
    namespaces: Namespaces<'_>,
) -> Vec<String> {
    let limit = MATCHES_MAX + 1;
    let acl = namespaces.acl();
    if context == JOBS {
        let jobs = snapshot.jobs().map(|(key, _)| key);
        return jobs
            .filter(|key| namespaces.contains(&key.namespace) && key.id.starts_with(prefix))
            .map(|key| key.id.clone())
            .take(limit)
            .collect();
    }
    if context == NAMESPACES {
        let names = snapshot
            .namespaces()
            .map(|namespace| namespace.name.clone())
            .filter(|name| acl.namespace_some(name));
        return names
            .filter(|name| name.starts_with(prefix))
            .take(limit)
            .collect();
    }
    if context == NODE_POOLS {
        let names = snapshot.node_pools().map(|pool| &pool.name);
        let names = names.filter(|name| acl.node_pool(name, NodePoolCapability::Read));
        let names = names.filter(|name| name.starts_with(prefix));
        return names.take(limit).cloned().collect();
    }
    if context == VARIABLES {
        let paths = variables(snapshot, prefix, namespaces).map(|key| key.path.clone());
        return paths.take(limit).collect();
    }
    let Some(ids) = IdPrefix::parse(prefix) else {
        return Vec::new();
    };
    match context {
        EVALS => snapshot
            .evals_with_prefix(ids)
            .filter(|eval| namespaces.contains(&eval.namespace))
            .map(|eval| eval.id.to_string())
            .take(limit)
            .collect(),
        ALLOCS => snapshot
            .allocs_with_prefix(ids)
            .filter(|alloc| namespaces.contains(&alloc.namespace))
            .map(|alloc| alloc.id.to_string())
            .take(limit)
            .collect(),
        DEPLOYMENTS => snapshot
            .deployments_with_prefix(ids)
            .filter(|deployment| namespaces.contains(&deployment.namespace))
            .map(|deployment| deployment.id.to_string())
            .take(limit)
            .collect(),
        _ => {
            let nodes = snapshot.nodes_with_prefix(ids);
            let nodes = nodes.filter(|_| acl.node(Level::Read));
            nodes.map(|node| node.id.to_string()).take(limit).collect()
        }
    }
}
