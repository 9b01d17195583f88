//! `/v1/namespaces` and `/v1/namespace/:name`.

use std::sync::Arc;

use controlplane_state::{Command, Table};
use protocol_api::namespaces::{
    DeleteNamespace, ListNamespaces, Namespace, NamespaceRequest, ReadNamespace, UpdateNamespace,
    WriteNamespace,
};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};

/// The longest name, and what it is made of.
const NAME_LEN_MAX: usize = 128;
/// The longest description.
const DESCRIPTION_LEN_MAX: usize = 256;

fn shown(namespace: &Arc<controlplane_state::Namespace>) -> Namespace {
    let controlplane_state::Namespace {
        name,
        description,
        meta,
        create_index,
        modify_index,
    } = controlplane_state::Namespace::clone(namespace);
    Namespace {
        name,
        description,
        quota: String::new(),
        meta,
        create_index,
        modify_index,
    }
}

pub(super) const ROUTES: Routes = routes![
    ListNamespaces => list,
    WriteNamespace => write,
    ReadNamespace => read,
    UpdateNamespace => update,
    DeleteNamespace => remove,
];

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
        found.ok_or_else(|| HttpError::not_found("namespace not found"))
    })
    .await
}

async fn remove(ask: &Ask) -> Answered {
    let name = ask.parameter("name").to_owned();
    let command = Command::NamespaceDelete { name };
    let changed = ask.change(command).await?;
    ask.done(changed.index)
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
    let NamespaceRequest {
        name,
        description,
        meta,
    } = request;
    let is_name_character = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_name_character) {
        return Err(HttpError::bad_request(format!(
            "invalid name {name:?}: up to {NAME_LEN_MAX} letters, digits and hyphens"
        )));
    }
    if description.len() > DESCRIPTION_LEN_MAX {
        return Err(HttpError::bad_request(format!(
            "the description is longer than {DESCRIPTION_LEN_MAX} bytes"
        )));
    }
    let namespace = controlplane_state::Namespace {
        name,
        description,
        meta,
        create_index: 0,
        modify_index: 0,
    };
    let changed = ask.change(Command::NamespaceUpsert { namespace }).await?;
    ask.done(changed.index)
}
