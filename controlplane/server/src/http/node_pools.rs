//! `/v1/node/pools` and `/v1/node/pool/:name`.

use std::sync::Arc;

use controlplane_state::{
    Command, POOL_NAME_LEN_MAX, PoolScheduler, Refusal, SchedulerAlgorithm, Snapshot, Table,
};
use protocol_access::NodePoolCapability;
use protocol_api::node_pools::{
    DeleteNodePool, ListNodePools, NodePool, NodePoolJobs, NodePoolNodes, NodePoolRequest,
    NodePoolScheduler, ReadNodePool, UpdateNodePool, WriteNodePool,
};
use serde_json::json;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::filter::Filter;
use super::page::{ByPlainName, page_where};
use super::route::{Routes, routes};
use super::{jobs, nodes, operator};
use crate::cluster::ChangeError;

/// The longest description, in bytes.
const DESCRIPTION_LEN_MAX: usize = 256;

pub(super) const ROUTES: Routes = routes![
    ListNodePools => list,
    WriteNodePool => write,
    ReadNodePool => read,
    UpdateNodePool => update,
    DeleteNodePool => remove,
    NodePoolNodes => nodes_of,
    NodePoolJobs => jobs_of,
];

fn shown(pool: &controlplane_state::NodePool) -> NodePool {
    let controlplane_state::NodePool {
        name,
        description,
        meta,
        scheduler,
        create_index,
        modify_index,
    } = pool.clone();
    let scheduler_configuration = scheduler.map(|scheduler| NodePoolScheduler {
        scheduler_algorithm: scheduler
            .algorithm
            .map_or("", operator::algorithm_word)
            .to_owned(),
        memory_oversubscription_enabled: scheduler.memory_oversubscription,
    });
    NodePool {
        name,
        description,
        meta,
        scheduler_configuration,
        create_index,
        modify_index,
    }
}

async fn list(ask: &Ask) -> Answered {
    let prefix = ask.query.get("prefix").unwrap_or("");
    let filter = Filter::of(&ask.query)?;
    let snapshot = ask.snapshot(&[Table::NodePools]).await?;
    let named = snapshot.node_pools();
    let acl = ask.acl();
    let seen = |name: &str| acl.node_pool(name, NodePoolCapability::Read);
    let named = named.filter(|pool| pool.name.starts_with(prefix) && seen(&pool.name));
    let views = named.map(|pool| (ByPlainName(pool.name.clone()), shown(pool)));
    let page = page_where(&ask.query, views, |view| match &filter {
        None => Ok(true),
        Some(filter) => filter.keeps(view),
    })?;
    ask.answer_page(
        &page.items,
        snapshot.table_index(&[Table::NodePools]),
        page.next_token.as_deref(),
    )
}

/// The pool of this name.
///
/// # Errors
/// 404.
fn pool<'a>(
    snapshot: &'a Snapshot,
    name: &str,
) -> Result<&'a Arc<controlplane_state::NodePool>, HttpError> {
    let found = snapshot.node_pool(name);
    found.ok_or_else(|| HttpError::not_found("node pool not found"))
}

async fn read(ask: &Ask) -> Answered {
    ask.read(&[Table::NodePools], |snapshot| {
        Ok(shown(pool(snapshot, ask.parameter("name"))?))
    })
    .await
}

async fn nodes_of(ask: &Ask) -> Answered {
    let name = ask.parameter("name");
    let tables = [Table::Nodes, Table::NodePools];
    let snapshot = ask.snapshot(&tables).await?;
    pool(&snapshot, name)?;
    nodes::list_in(ask, &snapshot, &tables, Some(name))
}

async fn jobs_of(ask: &Ask) -> Answered {
    let name = ask.parameter("name");
    let tables = [Table::Jobs, Table::JobSummaries, Table::NodePools];
    let snapshot = ask.snapshot(&tables).await?;
    pool(&snapshot, name)?;
    jobs::list_in(ask, &snapshot, &tables, Some(name))
}

async fn remove(ask: &Ask) -> Answered {
    let name = ask.parameter("name").to_owned();
    let command = Command::NodePoolDelete { name };
    let changed = match ask.change(command).await {
        Err(ChangeError::Refused(
            refusal @ (Refusal::PoolHasNodes(_) | Refusal::PoolHasJobs(_)),
        )) => {
            let region = &ask.api.config.region;
            let text = format!("{refusal} in regions: [{region}]");
            return Err(HttpError::bad_request(text));
        }
        changed => changed?,
    };
    ask.done(changed.index)
}

async fn write(ask: &Ask) -> Answered {
    upsert(ask, None).await
}

async fn update(ask: &Ask) -> Answered {
    upsert(ask, Some(ask.parameter("name"))).await
}

async fn upsert(ask: &Ask, path: Option<&str>) -> Answered {
    let mut request: NodePoolRequest = ask.json()?;
    if let Some(path) = path {
        if request.name.is_empty() {
            path.clone_into(&mut request.name);
        }
        if request.name != path {
            let text = "Node pool name does not match request path";
            return Err(HttpError::bad_request(text));
        }
    }
    let pool = checked(request)?;
    ask.settle_name(&pool.name)?;
    let command = Command::NodePoolUpsert { pool };
    let changed = ask.change(command).await?;
    ask.done(changed.index)
}

/// The pool that a body describes.
///
/// # Errors
/// 400 where a pool cannot be so.
fn checked(request: NodePoolRequest) -> Result<controlplane_state::NodePool, HttpError> {
    let NodePoolRequest {
        name,
        description,
        meta,
        scheduler_configuration,
        node_identity_ttl,
    } = request;
    let unset = [json!(0), json!(""), json!("0s")];
    if node_identity_ttl.is_some_and(|ttl| !unset.contains(&ttl)) {
        return Err(HttpError::bad_request(
            "NodeIdentityTTL has no effect: nodes have no identity tokens in this release; leave it \
             out",
        ));
    }
    if !controlplane_state::NodePool::is_name(&name) {
        return Err(HttpError::bad_request(format!(
            "invalid name {name:?}: up to {POOL_NAME_LEN_MAX} letters, digits, hyphens and \
             underscores"
        )));
    }
    if description.len() > DESCRIPTION_LEN_MAX {
        return Err(HttpError::bad_request(format!(
            "the description is longer than {DESCRIPTION_LEN_MAX} bytes"
        )));
    }
    let scheduler = scheduler_configuration.map(scheduler).transpose()?;
    Ok(controlplane_state::NodePool {
        name,
        description,
        meta,
        scheduler,
        ..controlplane_state::NodePool::default()
    })
}

fn scheduler(view: NodePoolScheduler) -> Result<PoolScheduler, HttpError> {
    let NodePoolScheduler {
        scheduler_algorithm,
        memory_oversubscription_enabled,
    } = view;
    let algorithm: Option<SchedulerAlgorithm> = match scheduler_algorithm.as_str() {
        "" => None,
        word => Some(operator::algorithm(word)?),
    };
    Ok(PoolScheduler {
        algorithm,
        memory_oversubscription: memory_oversubscription_enabled,
    })
}
