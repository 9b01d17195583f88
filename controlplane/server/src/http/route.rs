//! Which file serves which path.

use super::ask::{Ask, Caller};
use super::body::BodyUse;
use super::error::{Answered, HttpError};
use super::query::Query;
use super::{
    acl, agent, alloc, client_alloc, client_fs, deployments, evals, job, jobs, metrics, namespaces,
    nodes, operator, search, status,
};

/// The largest body of `acl/bootstrap`, which strangers may send: it holds one secret.
const BOOTSTRAP_BYTES_MAX: usize = 4096;

/// Carries one request to what serves it.
pub(super) async fn route(ask: &mut Ask, path: &[&str]) -> Answered {
    let Some((&"v1", rest)) = path.split_first() else {
        return beside(path);
    };
    match rest {
        ["jobs" | "validate", ..] => jobs::route(ask, rest).await,
        ["job", id, rest @ ..] => job::route(ask, id, rest).await,
        ["allocations"] => alloc::list(ask).await,
        ["allocation", id, rest @ ..] => alloc::route(ask, id, rest).await,
        ["evaluations"] => evals::list(ask).await,
        ["evaluation", id, rest @ ..] => evals::route(ask, id, rest).await,
        ["deployments"] => deployments::list(ask).await,
        ["deployment", rest @ ..] => deployments::route(ask, rest).await,
        ["nodes"] => nodes::list(ask).await,
        ["node", "pools"] | ["node", "pool", ..] => Err(unbuilt("node pools as objects")),
        ["node", id, rest @ ..] => nodes::route(ask, id, rest).await,
        ["client", "fs", rest @ ..] => client_fs::route(ask, rest).await,
        ["client", "allocation", id, rest @ ..] => client_alloc::route(ask, id, rest).await,
        ["client", action] => client_alloc::host(ask, action).await,
        ["search", rest @ ..] => search::route(ask, rest).await,
        ["namespaces"] => namespaces::list(ask).await,
        ["namespace", rest @ ..] => namespaces::route(ask, rest).await,
        ["agent", rest @ ..] => agent::route(ask, rest).await,
        ["regions"] => agent::regions(ask),
        ["status", rest @ ..] => status::route(ask, rest),
        ["operator", rest @ ..] => operator::route(ask, rest).await,
        ["system", rest @ ..] => operator::system(ask, rest).await,
        ["metrics"] => metrics::route(ask).await,
        ["acl", rest @ ..] => acl::route(ask, rest).await,
        ["event", ..] => Err(unbuilt("the event stream")),
        ["vars" | "var", ..] => Err(unbuilt("variables")),
        ["services" | "service", ..] => Err(unbuilt("service discovery")),
        ["scaling", ..] => Err(unbuilt("scaling policies")),
        ["volumes" | "volume" | "plugins" | "plugin", ..] => Err(unbuilt("volumes")),
        _ => Err(HttpError::no_route()),
    }
}

/// 501 for what users of the API know and this release does not do yet.
fn unbuilt(what: &str) -> HttpError {
    HttpError::not_built(format!("not part of this release: {what}"))
}

/// What is not below `/v1`.
fn beside(path: &[&str]) -> Answered {
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Redirect};
    match path {
        [] => Ok(Redirect::temporary("/ui/").into_response()),
        ["ui", ..] => Err(HttpError::new(
            StatusCode::NOT_FOUND,
            "this release has no web interface yet; the API is below /v1",
        )),
        _ => Err(HttpError::no_route()),
    }
}

/// Whether a path is served to callers without a token although access control is on.
pub(super) fn is_open(path: &[&str], query: &Query) -> bool {
    match path {
        ["v1", "status", "leader"] | ["v1", "agent", "health"] | ["v1", "acl", "bootstrap"] => true,
        // The token comes as the first message: read as `exec` reads it, or what is no handshake
        // there would be open here.
        ["v1", "client", "allocation", _, "exec"] => query.flag("ws_handshake") == Ok(true),
        _ => false,
    }
}

/// Whether a path is a list that `?filter=` chooses from.
pub(super) fn filters(path: &[&str]) -> bool {
    matches!(
        path,
        [
            "v1",
            "jobs" | "allocations" | "evaluations" | "deployments" | "nodes"
        ]
    )
}

/// What becomes of the body of a write, whose largest size is `bytes_max` in general. Strangers send
/// no more than the open routes read.
pub(super) fn body_use(path: &[&str], caller: &Caller, bytes_max: usize) -> BodyUse {
    match path {
        ["v1", "operator", "snapshot"] => BodyUse::Streamed,
        ["v1", "acl", "bootstrap"] => BodyUse::Whole {
            bytes_max: bytes_max.min(BOOTSTRAP_BYTES_MAX),
        },
        ["v1", "client", "allocation", _, "exec"] => BodyUse::Unread,
        _ if *caller == Caller::Stranger => BodyUse::Unread,
        _ => BodyUse::Whole { bytes_max },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_make_no_open_route_read_more_than_it_needs() {
        const LARGE: usize = 8 << 20;
        let stranger = |path: &[&str]| body_use(path, &Caller::Stranger, LARGE);
        let bootstrap = BodyUse::Whole { bytes_max: 4096 };
        assert_eq!(stranger(&["v1", "acl", "bootstrap"]), bootstrap);
        let exec = ["v1", "client", "allocation", "a", "exec"];
        for open in [
            &exec[..],
            &["v1", "status", "leader"],
            &["v1", "agent", "health"],
        ] {
            assert_eq!(stranger(open), BodyUse::Unread, "{open:?}");
        }
        assert_eq!(body_use(&exec, &Caller::Anyone, LARGE), BodyUse::Unread);
        let jobs = body_use(&["v1", "jobs"], &Caller::Anyone, LARGE);
        assert_eq!(jobs, BodyUse::Whole { bytes_max: LARGE });
    }
}
