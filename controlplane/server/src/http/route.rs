//! Which handler serves which operation of `protocol-api`, and what is said to everybody else.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use futures::future::BoxFuture;
use protocol_api::{Body, Capability, Endpoint, Found, Method, NotFound, Support};

use super::ask::{Ask, Caller};
use super::body::BodyUse;
use super::error::{Answered, HttpError};
use super::query::Query;
use super::{
    acl, actions, agent, alloc, client_alloc, client_fs, deployments, evals, fuzzy, job, jobs,
    metrics, namespaces, node_pools, nodes, operator, scaling, search, status,
};

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
    metrics::ROUTES,
    namespaces::ROUTES,
    node_pools::ROUTES,
    nodes::ROUTES,
    operator::ROUTES,
    scaling::ROUTES,
    search::ROUTES,
    status::ROUTES,
];

/// All of them, those of access control among them.
fn all() -> impl Iterator<Item = &'static (&'static str, Handler)> {
    ALL.iter().chain(acl::ALL).copied().flatten()
}

static HANDLERS: LazyLock<HashMap<&'static str, Handler>> =
    LazyLock::new(|| all().copied().collect());

/// What a request means.
#[derive(Debug)]
pub(super) enum Meant {
    /// This operation.
    Operation(Found),
    /// A path of the API by a method that it does not have.
    Method(&'static Endpoint),
    /// No path of the API.
    Nothing,
}

impl Meant {
    /// What `path` and `method` mean; `None` is a method of no operation.
    pub(super) fn by(path: &[String], method: Option<Method>) -> Self {
        match protocol_api::find(path, method) {
            Ok(found) => Self::Operation(found),
            Err(NotFound::Method { other }) => Self::Method(other),
            Err(NotFound::Path) => Self::Nothing,
        }
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        match self {
            Self::Operation(found) => Some(found.endpoint),
            Self::Method(other) => Some(other),
            Self::Nothing => None,
        }
    }

    /// Whether callers without a token are served although access control is on.
    pub(super) fn is_open(&self, query: &Query) -> bool {
        match self.endpoint().map(|it| it.capability) {
            Some(Capability::None) => true,
            // The token comes as the first message: read as `exec` reads it, or what is no
            // handshake there would be open here.
            Some(Capability::ManagementInHandshake) => query.flag("ws_handshake") == Ok(true),
            Some(Capability::Management) | None => false,
        }
    }

    /// Whether `?filter=` chooses from what is answered.
    pub(super) fn filters(&self) -> bool {
        self.endpoint().is_some_and(|it| it.filterable)
    }

    /// What becomes of the body, whose largest size is `bytes_max` in general. Strangers send no
    /// more than the open operations read.
    pub(super) fn body_use(&self, caller: &Caller, bytes_max: usize) -> BodyUse {
        let Self::Operation(found) = self else {
            return BodyUse::Unread;
        };
        match found.endpoint.body {
            Body::None => BodyUse::Unread,
            Body::Stream => BodyUse::Streamed,
            Body::Bytes { .. } if *caller == Caller::Stranger => BodyUse::Unread,
            Body::Bytes { bytes_max } => BodyUse::Whole { bytes_max },
            Body::Json { bytes_max: own, .. } => {
                let is_open = found.endpoint.capability == Capability::None;
                if *caller == Caller::Stranger && !is_open {
                    return BodyUse::Unread;
                }
                let bytes_max = own.map_or(bytes_max, |own| own.min(bytes_max));
                BodyUse::Whole { bytes_max }
            }
        }
    }
}

/// Carries a request to the handler of the operation that it means.
///
/// # Errors
/// 404, 405 or 501 where there is none; those of the handler.
pub(super) async fn serve(ask: &mut Ask, meant: Meant, path: &[String]) -> Answered {
    if meant.endpoint().is_some_and(|it| it.needs_access_control) && !ask.api.config.acl_enabled {
        return Err(HttpError::bad_request("ACL support disabled"));
    }
    let found = match meant {
        Meant::Operation(found) => found,
        Meant::Method(_) => return Err(HttpError::method()),
        Meant::Nothing => return beside(path),
    };
    if let Support::Absent(why) = found.endpoint.support {
        return Err(HttpError::not_built(why));
    }
    let name = found.endpoint.name;
    let handler = HANDLERS.get(name);
    let handler = handler.ok_or_else(|| HttpError::internal(format!("{name} has no handler")))?;
    ask.parameters = found.parameters;
    handler(ask).await
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

    fn body_use(method: Method, path: &str, caller: &Caller) -> BodyUse {
        const LARGE: usize = 8 << 20;
        let path: Vec<String> = path.split('/').map(str::to_owned).collect();
        Meant::by(&path, Some(method)).body_use(caller, LARGE)
    }

    #[test]
    fn strangers_make_no_operation_read_more_than_it_needs() {
        let stranger = |path| body_use(Method::Put, path, &Caller::Stranger);
        let bootstrap = BodyUse::Whole { bytes_max: 4096 };
        assert_eq!(stranger("v1/acl/bootstrap"), bootstrap);
        for closed in ["v1/jobs", "v1/client/allocation/a/exec", "v1/status/leader"] {
            assert_eq!(stranger(closed), BodyUse::Unread, "{closed}");
        }
        let jobs = body_use(Method::Put, "v1/jobs", &Caller::Anyone);
        let bytes_max = 8 << 20;
        assert_eq!(jobs, BodyUse::Whole { bytes_max });
        let snapshot = body_use(Method::Put, "v1/operator/snapshot", &Caller::Anyone);
        assert_eq!(snapshot, BodyUse::Streamed);
    }
}
