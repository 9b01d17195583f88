//! Helpers that all changes of access control share.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controlplane_state::{Command, Outcome, Snapshot};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use crate::cluster::Changed;
use crate::http::ask::Ask;
use crate::http::error::HttpError;

/// How long an entry that is on a majority may take until it is applied here.
pub(crate) const APPLIED_WITHIN: Duration = Duration::from_secs(5);

/// A change that was made, and a state that has it.
pub(in crate::http) struct Applied {
    pub(in crate::http) snapshot: Snapshot,
    pub(in crate::http) index: u64,
    pub(in crate::http) outcome: Outcome,
}

/// Changes the state, and waits until the change is applied here: its answer shows the object, and
/// the next request that this server gets sees it.
///
/// # Errors
/// The errors of the change.
pub(super) async fn apply(ask: &Ask, command: Command) -> Result<Applied, HttpError> {
    // Boxed: the futures of handlers are laid out within the depth that the compiler allows.
    let changed = Box::pin(ask.change(command)).await?;
    applied(ask, changed).await
}

/// Waits until a change is applied here.
///
/// # Errors
/// When that takes too long.
pub(in crate::http) async fn applied(ask: &Ask, changed: Changed) -> Result<Applied, HttpError> {
    let deadline = Instant::now() + APPLIED_WITHIN;
    let snapshot = ask.api.cluster.at_least(changed.index, deadline).await?;
    Ok(Applied {
        snapshot,
        index: changed.index,
        outcome: changed.outcome,
    })
}

/// The error for an object that was written, and that another request removed before it was shown.
pub(super) fn removed_meanwhile(what: &str) -> HttpError {
    HttpError::internal(format!(
        "the {what} was written, and another request has removed it since"
    ))
}

/// The value of `Hash`: SHA-256 of an object's fields, base64. Clients compare it for changes.
pub(super) fn hash(fields: &impl Serialize) -> String {
    // Texts, numbers and lists of them: writing these cannot fail.
    let bytes = serde_json::to_vec(fields).unwrap_or_default();
    STANDARD.encode(Sha256::digest(&bytes))
}

/// Whether a text is a UUID in the form that clients send: the parser takes three others, too.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == uuid::fmt::Hyphenated::LENGTH && Uuid::try_parse(text).is_ok()
}
