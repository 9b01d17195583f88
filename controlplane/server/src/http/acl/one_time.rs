//! `/v1/acl/token/onetime`.

use protocol_api::acl::{CreateOneTimeToken, ExchangeOneTimeToken};

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    CreateOneTimeToken => absent,
    ExchangeOneTimeToken => absent,
];

#[expect(clippy::unused_async, reason = "a handler is async")]
async fn absent(_: &Ask) -> Answered {
    Err(HttpError::not_built(
        "one-time tokens are not in this release yet",
    ))
}
