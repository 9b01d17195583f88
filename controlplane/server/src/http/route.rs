//! Which file serves which path.

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::query::Query;
use super::{alloc, client_fs, job, jobs, status};

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
        ["client", "fs", rest @ ..] => client_fs::route(ask, rest).await,
        ["status", rest @ ..] => status::route(ask, rest),
        _ => Err(HttpError::no_route()),
    }
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
        // The token comes as the first message.
        ["v1", "client", "allocation", _, "exec"] => query.switch("ws_handshake"),
        _ => false,
    }
}

/// Whether the body of a write is read before it is served.
pub(super) fn reads_body(path: &[&str]) -> bool {
    path != ["v1", "operator", "snapshot"]
}
