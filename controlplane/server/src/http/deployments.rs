//! `/v1/deployments`, `/v1/deployment/:id`, `/v1/deployment/allocations/:id`: reads. Changes are in
//! `deployment_change`.

use std::sync::Arc;

use controlplane_state::Table;
use protocol_api::deployments::{
    DeploymentAllocations, FailDeployment, ListDeployments, PauseDeployment, PromoteDeployment,
    ReadDeployment, SetAllocationHealth, UnblockDeployment,
};
use protocol_model::{Deployment, DeploymentId};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::filter::Filter;
use super::page::{ByIndex, page_where};
use super::route::{Routes, routes};
use super::{alloc, deployment_change, lookup};

pub(super) const ROUTES: Routes = routes![
    ListDeployments => list,
    ReadDeployment => read,
    DeploymentAllocations => allocations,
    PauseDeployment => deployment_change::pause,
    PromoteDeployment => deployment_change::promote,
    FailDeployment => deployment_change::fail,
    UnblockDeployment => deployment_change::unblock,
    SetAllocationHealth => deployment_change::set_health,
];

async fn list(ask: &Ask) -> Answered {
    let prefix = lookup::prefix(&ask.query)?;
    let namespaces = ask.namespaces();
    let filter = Filter::of(&ask.query)?;
    let snapshot = ask.snapshot(&[Table::Deployments]).await?;
    let shown = |found: &&Arc<Deployment>| namespaces.contains(&found.namespace);
    let key =
        |found: &Arc<Deployment>| (ByIndex(found.create_index, found.id.0), Arc::clone(found));
    let keep = |found: &Arc<Deployment>| match &filter {
        None => Ok(true),
        Some(filter) => filter.keeps(found),
    };
    let page = match prefix {
        None => page_where(
            &ask.query,
            snapshot.deployments().filter(shown).map(key),
            keep,
        )?,
        Some(prefix) => {
            let found = snapshot.deployments_with_prefix(prefix);
            page_where(&ask.query, found.filter(shown).map(key), keep)?
        }
    };
    let index = snapshot.table_index(&[Table::Deployments]);
    ask.answer_page(&page.items, index, page.next_token.as_deref())
}

/// The deployment that the path names.
fn id(ask: &Ask) -> Result<DeploymentId, HttpError> {
    lookup::id("a deployment", ask.parameter("id"))
}

async fn read(ask: &Ask) -> Answered {
    let id = id(ask)?;
    ask.read(&[Table::Deployments], |snapshot| {
        let found = snapshot.deployment(id).map(Arc::clone);
        found.ok_or_else(|| HttpError::not_found("deployment not found"))
    })
    .await
}

async fn allocations(ask: &Ask) -> Answered {
    let id = id(ask)?;
    alloc::answer_found(ask, alloc::any_moved, |snapshot| {
        snapshot.allocs_by_deployment(id).map(Arc::clone).collect()
    })
    .await
}
