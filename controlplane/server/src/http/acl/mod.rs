//! `/v1/acl`: one file per object.

mod bootstrap;
mod whoami;

use super::route::Routes;

/// The routes of each file.
pub(super) const ALL: &[Routes] = &[bootstrap::ROUTES, whoami::ROUTES];
