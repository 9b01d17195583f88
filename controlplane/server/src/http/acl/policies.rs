//! `/v1/acl/policies` and `/v1/acl/policy/:name`.

use protocol_api::acl::{DeletePolicy, ListPolicies, OwnPolicies, ReadPolicy, UpdatePolicy};

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListPolicies => absent,
    OwnPolicies => absent,
    ReadPolicy => absent,
    UpdatePolicy => absent,
    DeletePolicy => absent,
];

#[expect(clippy::unused_async, reason = "a handler is async")]
async fn absent(_: &Ask) -> Answered {
    Err(HttpError::not_built("policies are not in this release yet"))
}
