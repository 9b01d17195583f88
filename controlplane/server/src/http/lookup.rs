//! Finding one object by the id in a path.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use controlplane_state::{IdPrefix, Snapshot};
use protocol_model::{AllocId, Allocation, Job, JobKey};

use super::error::HttpError;
use super::query::Query;

/// The id that `text` is.
///
/// # Errors
/// Where it is none: a whole one is needed here, lists take beginnings (`?prefix=`).
pub(super) fn id<T: FromStr<Err: Display>>(what: &str, text: &str) -> Result<T, HttpError> {
    text.parse().map_err(|_| {
        HttpError::bad_request(format!(
            "{text:?} is not the id of {what}: all 36 characters are needed here, lists find ids by \
             their beginning with ?prefix="
        ))
    })
}

/// The range of ids that `?prefix=` names; all of them where it is absent.
///
/// # Errors
/// Where it is no beginning of an id.
pub(super) fn prefix(query: &Query) -> Result<Option<IdPrefix>, HttpError> {
    let Some(text) = query.text("prefix") else {
        return Ok(None);
    };
    IdPrefix::parse(text)
        .map(Some)
        .ok_or_else(|| HttpError::bad_request(format!("{text:?} is not the beginning of an id")))
}

/// The job of this id in the request's namespace.
///
/// # Errors
/// 404.
pub(super) fn job<'a>(snapshot: &'a Snapshot, key: &JobKey) -> Result<&'a Arc<Job>, HttpError> {
    snapshot
        .job(key)
        .ok_or_else(|| HttpError::not_found("job not found"))
}

/// The allocation of this id.
///
/// # Errors
/// 404.
pub(super) fn alloc(snapshot: &Snapshot, id: AllocId) -> Result<&Arc<Allocation>, HttpError> {
    snapshot
        .alloc(id)
        .ok_or_else(|| HttpError::not_found(format!("Unknown allocation \"{id}\"")))
}
