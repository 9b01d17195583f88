//! `/v1/acl/login` and `/v1/acl/oidc`.

use protocol_api::acl::{CompleteOidcLogin, Login, StartOidcLogin};

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    Login => absent,
    StartOidcLogin => absent,
    CompleteOidcLogin => absent,
];

#[expect(clippy::unused_async, reason = "a handler is async")]
async fn absent(_: &Ask) -> Answered {
    Err(HttpError::not_built("login are not in this release yet"))
}
