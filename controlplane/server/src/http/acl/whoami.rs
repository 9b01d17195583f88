//! `/v1/acl/whoami`.

use protocol_api::acl::ReadWhoAmI;

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ReadWhoAmI => absent,
];

#[expect(clippy::unused_async, reason = "a handler is async")]
async fn absent(_: &Ask) -> Answered {
    Err(HttpError::not_built("whoami are not in this release yet"))
}
