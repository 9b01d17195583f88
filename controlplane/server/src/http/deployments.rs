//! `/v1/deployments`, `/v1/deployment/:id`, `/v1/deployment/allocations/:id`.

use std::sync::Arc;

use controlplane_state::Table;
use protocol_model::{Allocation, Deployment, DeploymentId};

use super::ask::{Ask, Verb};
use super::error::{Answered, HttpError};
use super::page::{ByIndex, page};
use super::{alloc, lookup};

/// `/v1/deployments`.
pub(super) async fn list(ask: &Ask) -> Answered {
    if ask.verb != Verb::Get {
        return Err(HttpError::method());
    }
    let prefix = lookup::prefix(&ask.query)?;
    let namespaces = ask.query.namespaces();
    let snapshot = ask.snapshot(&[Table::Deployments]).await?;
    let shown = |found: &&Arc<Deployment>| namespaces.contains(&found.namespace);
    let key =
        |found: &Arc<Deployment>| (ByIndex(found.create_index, found.id.0), Arc::clone(found));
    let page = match prefix {
        None => page(&ask.query, snapshot.deployments().filter(shown).map(key))?,
        Some(prefix) => page(
            &ask.query,
            snapshot
                .deployments_with_prefix(prefix)
                .filter(shown)
                .map(key),
        )?,
    };
    let index = snapshot.table_index(&[Table::Deployments]);
    ask.answer_page(&page.items, index, page.next_token.as_deref())
}

pub(super) async fn route(ask: &Ask, rest: &[&str]) -> Answered {
    match (ask.verb, rest) {
        (Verb::Get, ["allocations", id]) => allocations(ask, id).await,
        (
            _,
            [
                "fail" | "pause" | "promote" | "allocation-health" | "unblock",
                _,
            ],
        ) => Err(HttpError::not_built(
            "deployments cannot be steered by hand in this release",
        )),
        (Verb::Get, [id]) => {
            let id: DeploymentId = lookup::id("a deployment", id)?;
            ask.read(&[Table::Deployments], |snapshot| {
                let found = snapshot.deployment(id).map(Arc::clone);
                found.ok_or_else(|| HttpError::not_found("deployment not found"))
            })
            .await
        }
        (_, [_] | ["allocations", _]) => Err(HttpError::method()),
        _ => Err(HttpError::no_route()),
    }
}

async fn allocations(ask: &Ask, id: &str) -> Answered {
    let id: DeploymentId = lookup::id("a deployment", id)?;
    let resources = alloc::list_resources(ask)?;
    ask.read(&[Table::Allocs], |snapshot| {
        let allocs: Vec<Arc<Allocation>> =
            snapshot.allocs_by_deployment(id).map(Arc::clone).collect();
        Ok(alloc::stubs(ask, snapshot, &allocs, resources))
    })
    .await
}
