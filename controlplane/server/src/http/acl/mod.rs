//! `/v1/acl`: one file per object.

mod auth_methods;
mod binding_rules;
mod bootstrap;
mod login;
mod one_time;
mod policies;
mod roles;
mod tokens;
mod whoami;

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
    whoami::ROUTES,
    login::ROUTES,
];
