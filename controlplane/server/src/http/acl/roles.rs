//! `/v1/acl/roles` and `/v1/acl/role`.

use protocol_api::acl::{CreateRole, DeleteRole, ListRoles, ReadRole, ReadRoleByName, UpdateRole};

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListRoles => absent,
    CreateRole => absent,
    ReadRole => absent,
    ReadRoleByName => absent,
    UpdateRole => absent,
    DeleteRole => absent,
];

#[expect(clippy::unused_async, reason = "a handler is async")]
async fn absent(_: &Ask) -> Answered {
    Err(HttpError::not_built("roles are not in this release yet"))
}
