//! `/v1/acl/tokens` and `/v1/acl/token/:accessor`.

use protocol_api::acl::{CreateToken, DeleteToken, ListTokens, ReadToken, UpdateToken};

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListTokens => absent,
    CreateToken => absent,
    ReadToken => absent,
    UpdateToken => absent,
    DeleteToken => absent,
];

#[expect(clippy::unused_async, reason = "a handler is async")]
async fn absent(_: &Ask) -> Answered {
    Err(HttpError::not_built(
        "further tokens are not in this release yet",
    ))
}
