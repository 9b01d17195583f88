//! `/v1/namespaces` and `/v1/namespace/:name`.

use std::sync::Arc;

use controlplane_state::command::DeletionRule;
use controlplane_state::{Command, NamespaceNodePools, Refusal, Snapshot, Table};
use protocol_api::namespaces::{
    DeleteNamespace, ListNamespaces, Namespace, NamespaceCapabilities,
    NamespaceNodePoolConfiguration, NamespaceRequest, ReadNamespace, UpdateNamespace,
    WriteNamespace,
};
use protocol_model::DEFAULT_NAMESPACE;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};
use crate::cluster::{ChangeError, Changed};

/// The longest description, in bytes.
const DESCRIPTION_LEN_MAX: usize = 256;
/// The longest list of drivers, network modes or patterns of node pools.
const LIST_LEN_MAX: usize = 128;
/// The longest entry of such a list, in bytes.
const ENTRY_LEN_MAX: usize = 256;

pub(super) const ROUTES: Routes = routes![
    ListNamespaces => list,
    WriteNamespace => write,
    ReadNamespace => read,
    UpdateNamespace => update,
    DeleteNamespace => remove,
];

fn shown(namespace: &Arc<controlplane_state::Namespace>) -> Namespace {
    let controlplane_state::Namespace {
        name,
        description,
        meta,
        capabilities,
        node_pool_configuration,
        variables_bytes_max,
        create_index,
        modify_index,
    } = controlplane_state::Namespace::clone(namespace);
    Namespace {
        name,
        description,
        quota: String::new(),
        capabilities: (!capabilities.is_open()).then(|| shown_capabilities(capabilities)),
        node_pool_configuration: node_pool_configuration.map(shown_pools),
        variables_bytes_max,
        meta,
        create_index,
        modify_index,
    }
}

fn shown_capabilities(kept: controlplane_state::NamespaceCapabilities) -> NamespaceCapabilities {
    let controlplane_state::NamespaceCapabilities {
        enabled_task_drivers,
        disabled_task_drivers,
        enabled_network_modes,
        disabled_network_modes,
    } = kept;
    NamespaceCapabilities {
        enabled_task_drivers,
        disabled_task_drivers,
        enabled_network_modes,
        disabled_network_modes,
    }
}

fn shown_pools(kept: NamespaceNodePools) -> NamespaceNodePoolConfiguration {
    let default = kept.default_pool().to_owned();
    let NamespaceNodePools {
        default: _,
        allowed,
        denied,
    } = kept;
    NamespaceNodePoolConfiguration {
        default,
        allowed,
        denied,
    }
}

/// All namespaces, or those whose names begin so, by name.
async fn list(ask: &Ask) -> Answered {
    let prefix = ask.query.get("prefix").unwrap_or("");
    ask.read(&[Table::Namespaces], |snapshot| {
        let acl = ask.acl();
        let named = |namespace: &&Arc<controlplane_state::Namespace>| {
            namespace.name.starts_with(prefix) && acl.namespace_some(&namespace.name)
        };
        let views = snapshot.namespaces().filter(named).map(shown);
        Ok(views.collect::<Vec<_>>())
    })
    .await
}

async fn read(ask: &Ask) -> Answered {
    ask.read(&[Table::Namespaces], |snapshot| {
        let found = snapshot.namespace(ask.parameter("name"));
        let found = found.map(shown);
        found.ok_or_else(|| HttpError::not_found("Namespace not found"))
    })
    .await
}

/// A namespace that is not there is deleted already.
async fn remove(ask: &Ask) -> Answered {
    match delete(ask, ask.parameter("name")).await {
        Ok(changed) => ask.done(changed.index),
        Err(ChangeError::Refused(Refusal::NamespaceHolds(holds))) => {
            let region = ask.api.config.region.as_str();
            Err(HttpError::bad_request(holds.in_region(region)))
        }
        Err(ChangeError::Refused(Refusal::UnknownNamespace(_))) => {
            let snapshot = ask.api.cluster.snapshot();
            ask.done(snapshot.table_index(&[Table::Namespaces]))
        }
        Err(error) => Err(error.into()),
    }
}

async fn delete(ask: &Ask, name: &str) -> Result<Changed, ChangeError> {
    let delete = |rule| Command::NamespaceDelete {
        name: name.to_owned(),
        rule,
    };
    match ask.change(delete(DeletionRule::NothingLive)).await {
        Err(ChangeError::OldServer(_)) => {}
        changed => return changed,
    }
    check_deletion(&ask.api.cluster.consistent().await?, name)?;
    // The rule that every server knows.
    ask.change(delete(DeletionRule::NoJobs)).await
}

/// The present rule, for the one of level 1, which looks at no allocation.
fn check_deletion(snapshot: &Snapshot, name: &str) -> Result<(), ChangeError> {
    let holds = snapshot.held_in_namespace(name);
    let refusal = match name {
        DEFAULT_NAMESPACE => Refusal::NamespaceNotDeletable(name.to_owned()),
        _ if !holds.is_empty() => Refusal::NamespaceHolds(holds),
        _ => return Ok(()),
    };
    Err(ChangeError::Refused(refusal))
}

async fn write(ask: &Ask) -> Answered {
    upsert(ask, None).await
}

async fn update(ask: &Ask) -> Answered {
    upsert(ask, Some(ask.parameter("name"))).await
}

async fn upsert(ask: &Ask, path: Option<&str>) -> Answered {
    let mut request: NamespaceRequest = ask.json()?;
    if let Some(path) = path {
        if request.name.is_empty() {
            path.clone_into(&mut request.name);
        }
        if request.name != path {
            return Err(HttpError::bad_request(
                "Namespace name does not match request path",
            ));
        }
    }
    let namespace = checked(request).map_err(HttpError::bad_request)?;
    let command = Command::NamespaceUpsert { namespace };
    let changed = ask.change(command).await?;
    ask.done(changed.index)
}

/// The namespace that a body describes.
///
/// # Errors
/// The reason why a namespace cannot be so.
fn checked(request: NamespaceRequest) -> Result<controlplane_state::Namespace, String> {
    let NamespaceRequest {
        name,
        description,
        quota,
        capabilities,
        node_pool_configuration,
        variables_bytes_max,
        meta,
    } = request;
    if !controlplane_state::Namespace::is_name(&name) {
        return Err(format!(
            "invalid name {name:?}. Must match regex ^[a-zA-Z0-9-]{{1,128}}$"
        ));
    }
    if description.len() > DESCRIPTION_LEN_MAX {
        return Err(format!(
            "description longer than {DESCRIPTION_LEN_MAX} bytes: it has {}",
            description.len()
        ));
    }
    if !quota.is_empty() {
        return Err(format!(
            "quota {quota:?} does not exist: this release has no quotas; leave Quota out"
        ));
    }
    let capabilities = checked_capabilities(capabilities.unwrap_or_default())?;
    let pools = node_pool_configuration.map(checked_pools).transpose()?;
    Ok(controlplane_state::Namespace {
        name,
        description,
        meta,
        capabilities,
        node_pool_configuration: pools,
        variables_bytes_max,
        create_index: 0,
        modify_index: 0,
    })
}

fn checked_capabilities(
    request: NamespaceCapabilities,
) -> Result<controlplane_state::NamespaceCapabilities, String> {
    let NamespaceCapabilities {
        enabled_task_drivers,
        disabled_task_drivers,
        enabled_network_modes,
        disabled_network_modes,
    } = request;
    let lists = [
        ("Capabilities.EnabledTaskDrivers", &enabled_task_drivers),
        ("Capabilities.DisabledTaskDrivers", &disabled_task_drivers),
        ("Capabilities.EnabledNetworkModes", &enabled_network_modes),
        ("Capabilities.DisabledNetworkModes", &disabled_network_modes),
    ];
    for (field, list) in lists {
        check_list(field, list)?;
    }
    Ok(controlplane_state::NamespaceCapabilities {
        enabled_task_drivers,
        disabled_task_drivers,
        enabled_network_modes,
        disabled_network_modes,
    })
}

fn checked_pools(request: NamespaceNodePoolConfiguration) -> Result<NamespaceNodePools, String> {
    let NamespaceNodePoolConfiguration {
        default,
        allowed,
        denied,
    } = request;
    if allowed.is_some() && !denied.is_empty() {
        return Err(
            "NodePoolConfiguration: Allowed and Denied exclude each other; leave one out"
                .to_owned(),
        );
    }
    if !default.is_empty() && !controlplane_state::NodePool::is_name(&default) {
        return Err(format!(
            "NodePoolConfiguration: invalid name of the default node pool {default:?}"
        ));
    }
    if let Some(allowed) = &allowed {
        check_list("NodePoolConfiguration.Allowed", allowed)?;
    }
    check_list("NodePoolConfiguration.Denied", &denied)?;
    let pools = NamespaceNodePools {
        default,
        allowed,
        denied,
    };
    let default = pools.default_pool();
    if !pools.allows(default) {
        return Err(format!(
            "NodePoolConfiguration: the default node pool {default:?} is denied; name another \
             Default"
        ));
    }
    Ok(pools)
}

fn check_list(field: &str, list: &[String]) -> Result<(), String> {
    if list.len() > LIST_LEN_MAX {
        let length = list.len();
        return Err(format!(
            "{field} has {length} entries: at most {LIST_LEN_MAX} are taken"
        ));
    }
    let wrong = |entry: &&String| entry.is_empty() || entry.len() > ENTRY_LEN_MAX;
    match list.iter().find(wrong) {
        None => Ok(()),
        Some(entry) => Err(format!(
            "{field}: entry {entry:?} has {} bytes: 1 to {ENTRY_LEN_MAX} are taken",
            entry.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(request: NamespaceRequest) -> String {
        let named = NamespaceRequest {
            name: match request.name.as_str() {
                "" => "dev".to_owned(),
                name => name.to_owned(),
            },
            ..request
        };
        checked(named).expect_err("it is refused")
    }

    #[test]
    fn bad_namespaces_are_refused_with_field_value_and_limit() {
        let star = NamespaceRequest {
            name: "*".to_owned(),
            ..NamespaceRequest::default()
        };
        let text = "invalid name \"*\". Must match regex ^[a-zA-Z0-9-]{1,128}$";
        assert_eq!(refused(star), text);
        let long = NamespaceRequest {
            description: "x".repeat(257),
            ..NamespaceRequest::default()
        };
        assert_eq!(
            refused(long),
            "description longer than 256 bytes: it has 257"
        );
        let quota = NamespaceRequest {
            quota: "prod".to_owned(),
            ..NamespaceRequest::default()
        };
        assert!(refused(quota).starts_with("quota \"prod\" does not exist"));
        let drivers = NamespaceCapabilities {
            disabled_task_drivers: vec![String::new()],
            ..NamespaceCapabilities::default()
        };
        let drivers = NamespaceRequest {
            capabilities: Some(drivers),
            ..NamespaceRequest::default()
        };
        let text = "Capabilities.DisabledTaskDrivers: entry \"\" has 0 bytes: 1 to 256 are taken";
        assert_eq!(refused(drivers), text);
    }

    #[test]
    fn node_pools_that_contradict_each_other_are_refused() {
        let pools = |default: &str, allowed: Option<&str>, denied: &[&str]| {
            let denied = denied.iter().map(|it| (*it).to_owned());
            refused(NamespaceRequest {
                node_pool_configuration: Some(NamespaceNodePoolConfiguration {
                    default: default.to_owned(),
                    allowed: allowed.map(|it| vec![it.to_owned()]),
                    denied: denied.collect(),
                }),
                ..NamespaceRequest::default()
            })
        };
        assert!(pools("", Some("a"), &["b"]).contains("exclude each other"));
        assert!(pools("a b", None, &[]).contains("\"a b\""));
        assert!(pools("", None, &["*"]).contains("\"default\" is denied"));
        let many = ["x"; LIST_LEN_MAX + 1];
        assert!(pools("", None, &many).contains("has 129 entries"));
    }
}
