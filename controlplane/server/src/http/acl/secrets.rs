//! Secrets of tokens and auth methods, sealed for the log and opened for answers.
//!
//! A value opens only in its place: the secret of a token under its accessor id, those of a method
//! under its name.

use controlplane_state::{AclToken, Sealed};
use protocol_model::SecretText;

use crate::http::Api;
use crate::http::error::HttpError;

/// Seals the secret of a new token.
///
/// # Errors
/// 503 where this server cannot seal, with the key that it lacks.
pub(super) fn seal_token(
    _api: &Api,
    _accessor_id: &str,
    _secret: &SecretText,
) -> Result<Option<Sealed>, HttpError> {
    Ok(None)
}

/// The secret of a token; empty where it was never sealed, or this server cannot open it.
pub(super) fn open_token(_api: &Api, _token: &AclToken) -> SecretText {
    SecretText::default()
}

/// Seals the secrets of an auth method.
///
/// # Errors
/// As [`seal_token`].
pub(super) fn seal_method(
    _api: &Api,
    _name: &str,
    _bytes: &[u8],
) -> Result<Option<Sealed>, HttpError> {
    Ok(None)
}

/// The secrets of an auth method.
///
/// # Errors
/// 503 where this server cannot open them.
pub(super) fn open_method(_api: &Api, _name: &str, _sealed: &Sealed) -> Result<Vec<u8>, HttpError> {
    Ok(Vec::new())
}
