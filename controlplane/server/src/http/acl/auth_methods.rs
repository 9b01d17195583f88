//! `/v1/acl/auth-methods` and `/v1/acl/auth-method`.

use protocol_api::acl::{
    CreateAuthMethod, DeleteAuthMethod, ListAuthMethods, ReadAuthMethod, UpdateAuthMethod,
};

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListAuthMethods => absent,
    CreateAuthMethod => absent,
    ReadAuthMethod => absent,
    UpdateAuthMethod => absent,
    DeleteAuthMethod => absent,
];

#[expect(clippy::unused_async, reason = "a handler is async")]
async fn absent(_: &Ask) -> Answered {
    Err(HttpError::not_built(
        "auth methods are not in this release yet",
    ))
}
