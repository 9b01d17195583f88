//! Which handler serves which operation of `protocol-api`, and what is said to everybody else.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use futures::future::BoxFuture;
use protocol_api::{Body, Endpoint, NotFound, Support};

use super::ask::Ask;
use super::body::BodyUse;
use super::error::{Answered, HttpError};
use super::{
    acl, actions, agent, alloc, client_alloc, client_fs, deployments, evals, fuzzy, job, jobs,
    keyring, metrics, namespaces, node_pools, nodes, operator, scaling, search, status, variables,
    well_known,
};
use crate::config::Config;

/// Answers one request.
pub(super) type Handler = for<'a> fn(&'a mut Ask) -> BoxFuture<'a, Answered>;
/// Operations by their names, each with its handler.
pub(super) type Routes = &'static [(&'static str, Handler)];

/// `Operation => handler, ..` as [`Routes`].
macro_rules! routes {
    ($($operation:ident => $handler:expr),+ $(,)?) => {{
        use protocol_api::Operation as _;
        &[$((
            $operation::ENDPOINT.name,
            |ask| Box::pin($handler(ask)) as futures::future::BoxFuture<'_, _>,
        )),+]
    }};
}
pub(super) use routes;

const ALL: &[Routes] = &[
    actions::ROUTES,
    agent::ROUTES,
    alloc::ROUTES,
    client_alloc::ROUTES,
    client_fs::ROUTES,
    deployments::ROUTES,
    evals::ROUTES,
    fuzzy::ROUTES,
    job::ROUTES,
    jobs::ROUTES,
    keyring::ROUTES,
    metrics::ROUTES,
    namespaces::ROUTES,
    node_pools::ROUTES,
    nodes::ROUTES,
    operator::ROUTES,
    scaling::ROUTES,
    search::ROUTES,
    status::ROUTES,
    variables::ROUTES,
    well_known::ROUTES,
];

/// All of them, those of access control among them.
fn all() -> impl Iterator<Item = &'static (&'static str, Handler)> {
    ALL.iter().chain(acl::ALL).copied().flatten()
}

static HANDLERS: LazyLock<HashMap<&'static str, Handler>> =
    LazyLock::new(|| all().copied().collect());

/// The answer to a request that means no operation: 405, 404, or a redirect from the root.
///
/// # Errors
/// 405 and 404.
pub(super) fn not_found(error: &NotFound, path: &[String], config: &Config) -> Answered {
    match error {
        NotFound::Method { other } if other.needs_access_control && !config.acl_enabled => {
            Err(access_control_is_off())
        }
        NotFound::Method { .. } => Err(HttpError::method()),
        NotFound::Path => beside(path),
    }
}

/// The use of a request's body, whose largest size is `bytes_max` in general.
pub(super) fn body_use(endpoint: &Endpoint, bytes_max: usize) -> BodyUse {
    match endpoint.body {
        Body::None => BodyUse::Unread,
        Body::Stream => BodyUse::Streamed,
        Body::Bytes { bytes_max } => BodyUse::Whole { bytes_max },
        Body::Json { bytes_max: own, .. } => {
            let bytes_max = own.map_or(bytes_max, |own| own.min(bytes_max));
            BodyUse::Whole { bytes_max }
        }
    }
}

/// Carries a request to the handler of its operation.
///
/// # Errors
/// 400 or 501 where this server does not serve it; those of the handler.
pub(super) async fn serve(ask: &mut Ask, endpoint: &Endpoint) -> Answered {
    if endpoint.needs_access_control && !ask.api.config.acl_enabled {
        return Err(access_control_is_off());
    }
    if let Support::Absent(why) = endpoint.support {
        return Err(HttpError::not_built(why));
    }
    let name = endpoint.name;
    let handler = HANDLERS.get(name);
    let handler = handler.ok_or_else(|| HttpError::internal(format!("{name} has no handler")))?;
    let answer = handler(ask).await?;
    if ask.is_settled() {
        return Ok(answer);
    }
    Err(HttpError::internal(format!(
        "{name} did not name the object that it answers"
    )))
}

fn access_control_is_off() -> HttpError {
    HttpError::bad_request("ACL support disabled")
}

/// What is not below `/v1`.
fn beside(path: &[String]) -> Answered {
    match path.first().map(String::as_str) {
        None => Ok(Redirect::temporary("/ui/").into_response()),
        Some("ui") => Err(HttpError::new(
            StatusCode::NOT_FOUND,
            "this release has no web interface yet; the API is below /v1",
        )),
        _ => Err(HttpError::no_route()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_operation_of_this_release_has_one_handler_and_no_other_has_one() {
        let built = |it: &&Endpoint| it.support == Support::Built;
        let declared: BTreeSet<&str> = protocol_api::endpoints()
            .filter(built)
            .map(|it| it.name)
            .collect();
        let mut served = BTreeSet::new();
        for (name, _) in all() {
            assert!(served.insert(*name), "{name} has two handlers");
        }
        assert_eq!(served, declared);
    }

    #[test]
    fn operations_for_callers_without_rights_read_small_bodies() {
        for endpoint in protocol_api::endpoints().filter(|it| it.need.is_open()) {
            match body_use(endpoint, 8 << 20) {
                BodyUse::Unread => {}
                BodyUse::Whole { bytes_max } if bytes_max <= OPEN_BODY_BYTES_MAX => {}
                other => panic!("{}: {other:?}", endpoint.name),
            }
        }
    }

    /// The largest body that a caller without any right makes a server read.
    const OPEN_BODY_BYTES_MAX: usize = 2 << 20;
}
