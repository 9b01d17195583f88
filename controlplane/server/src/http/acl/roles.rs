//! `/v1/acl/roles` and `/v1/acl/role`.

use std::sync::Arc;

use controlplane_state::command::AclRoles;
use controlplane_state::{AclRole, Command, Snapshot, Table};
use protocol_api::acl::{
    CreateRole, DeleteRole, ListRoles, PolicyLink, ReadRole, ReadRoleByName, Role, RoleRequest,
    UpdateRole,
};
use uuid::Uuid;

use super::written::{apply, hash, removed_meanwhile};
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

/// The tables that say which roles a caller has.
const TABLES: [Table; 2] = [Table::AclRoles, Table::AclTokens];

pub(super) const ROUTES: Routes = routes![
    ListRoles => list,
    CreateRole => create,
    ReadRole => read,
    ReadRoleByName => read_by_name,
    UpdateRole => update,
    DeleteRole => remove,
];

/// Whether the caller may read a role: management, or a token that links to it.
fn is_readable(ask: &Ask, snapshot: &Snapshot, id: &str) -> bool {
    if ask.acl().is_management() {
        return true;
    }
    let token = snapshot.acl_token(&ask.accessor_id());
    token.is_some_and(|token| token.roles.iter().any(|role| role == id))
}

async fn list(ask: &Ask) -> Answered {
    let prefix = ask.query.get("prefix").unwrap_or("");
    ask.read(&TABLES, |snapshot| {
        let roles = snapshot.acl_roles();
        let roles =
            roles.filter(|it| it.id.starts_with(prefix) && is_readable(ask, snapshot, &it.id));
        Ok(roles.map(|it| shown(it)).collect::<Vec<_>>())
    })
    .await
}

async fn read(ask: &Ask) -> Answered {
    let id = ask.parameter("id");
    one(ask, |snapshot| snapshot.acl_role(id)).await
}

async fn read_by_name(ask: &Ask) -> Answered {
    let name = ask.parameter("name");
    one(ask, |snapshot| snapshot.acl_role_by_name(name)).await
}

async fn one(ask: &Ask, find: impl Fn(&Snapshot) -> Option<&Arc<AclRole>>) -> Answered {
    ask.read(&TABLES, |snapshot| match find(snapshot) {
        Some(role) if is_readable(ask, snapshot, &role.id) => Ok(shown(role)),
        None if ask.acl().is_management() => Err(HttpError::not_found("ACL role not found")),
        Some(_) | None => Err(HttpError::permission_denied()),
    })
    .await
}

async fn create(ask: &Ask) -> Answered {
    let request: RoleRequest = ask.json()?;
    // As in Nomad, a body with an id changes the role that has it.
    if !request.id.is_empty() {
        return write(ask, request, |roles| AclRoles::Update { roles }).await;
    }
    let id = Uuid::new_v4().to_string();
    let request = RoleRequest { id, ..request };
    write(ask, request, |roles| AclRoles::Create { roles }).await
}

async fn update(ask: &Ask) -> Answered {
    let mut request: RoleRequest = ask.json()?;
    let id = ask.parameter("id");
    if request.id.is_empty() {
        id.clone_into(&mut request.id);
    }
    if request.id != id {
        return Err(HttpError::bad_request(
            "ACL role ID does not match request path",
        ));
    }
    write(ask, request, |roles| AclRoles::Update { roles }).await
}

async fn write(
    ask: &Ask,
    request: RoleRequest,
    command: impl FnOnce(Vec<AclRole>) -> AclRoles,
) -> Answered {
    let RoleRequest {
        id,
        name,
        description,
        policies,
    } = request;
    let role = AclRole {
        id: id.clone(),
        name,
        description,
        policies: policies.into_iter().map(|link| link.name).collect(),
        ..AclRole::default()
    };
    let applied = apply(ask, Command::from(command(vec![role]))).await?;
    let found = applied.snapshot.acl_role(&id);
    let found = found.ok_or_else(|| removed_meanwhile("role"))?;
    ask.answer(&shown(found), applied.index)
}

async fn remove(ask: &Ask) -> Answered {
    let ids = vec![ask.parameter("id").to_owned()];
    let applied = apply(ask, AclRoles::Delete { ids }.into()).await?;
    ask.done(applied.index)
}

fn shown(role: &AclRole) -> Role {
    let AclRole {
        id,
        name,
        description,
        policies,
        create_index,
        modify_index,
    } = role;
    let links = policies
        .iter()
        .map(|name| PolicyLink { name: name.clone() });
    Role {
        id: id.clone(),
        name: name.clone(),
        description: description.clone(),
        policies: links.collect(),
        hash: hash(&(name, description, policies)),
        create_index: *create_index,
        modify_index: *modify_index,
    }
}
