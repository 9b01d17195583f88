//! `/v1/acl`: one file per object.

mod auth_methods;
mod binding_rules;
mod bootstrap;
mod login;
mod one_time;
mod policies;
mod roles;
mod secrets;
mod token_view;
mod tokens;
mod whoami;
pub(super) mod written;

use super::route::Routes;

/// The routes of each file.
pub(super) const ALL: &[Routes] = &[
    bootstrap::ROUTES,
    policies::ROUTES,
    tokens::ROUTES,
    one_time::ROUTES,
    roles::ROUTES,
    auth_methods::ROUTES,
    binding_rules::ROUTES,
    login::ROUTES,
    whoami::ROUTES,
];
