//! `/v1/acl/binding-rules` and `/v1/acl/binding-rule`.

use protocol_api::acl::{
    CreateBindingRule, DeleteBindingRule, ListBindingRules, ReadBindingRule, UpdateBindingRule,
};

use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListBindingRules => absent,
    CreateBindingRule => absent,
    ReadBindingRule => absent,
    UpdateBindingRule => absent,
    DeleteBindingRule => absent,
];

#[expect(clippy::unused_async, reason = "a handler is async")]
async fn absent(_: &Ask) -> Answered {
    Err(HttpError::not_built(
        "binding rules are not in this release yet",
    ))
}
