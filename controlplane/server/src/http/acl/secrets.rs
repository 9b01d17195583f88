//! Secrets of tokens and auth methods, sealed for the log and opened for answers.
//!
//! A value opens only in its place: the secret of a token under its accessor id, those of a method
//! under its name.

use std::time::Duration;

use axum::http::StatusCode;
use controlplane_keyring::{KeyringError, Purpose};
use controlplane_state::command::AclPolicies;
use controlplane_state::{AclToken, Sealed};
use protocol_model::SecretText;

use crate::http::Api;
use crate::http::error::HttpError;
use crate::keyring::seal_soon;

/// How long the first root key may take: a leader makes it in the moment after it leads.
const FIRST_KEY_WITHIN: Duration = Duration::from_secs(5);

/// Seals the secret of a new token.
///
/// # Errors
/// 503 where this server cannot seal, with the key that it lacks.
pub(super) async fn seal_token(
    api: &Api,
    accessor_id: &str,
    secret: &SecretText,
) -> Result<Sealed, HttpError> {
    let secret = secret.reveal().as_bytes();
    seal(api, Purpose::Tokens, accessor_id, secret).await
}

/// The secret of a token; empty where it was never sealed, or this server cannot open it.
pub(super) fn open_token(api: &Api, token: &AclToken) -> SecretText {
    let Some(sealed) = &token.sealed else {
        return SecretText::default();
    };
    let place = token.accessor_id.as_bytes();
    let opened = api.keyring.open(Purpose::Tokens, place, sealed);
    let opened = opened.inspect_err(|error| {
        let accessor_id = &token.accessor_id;
        tracing::warn!(%accessor_id, %error, "cannot open the secret of a token");
    });
    let text = opened
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    SecretText::new(text.unwrap_or_default())
}

/// Seals the secrets of an auth method.
///
/// # Errors
/// As [`seal_token`].
pub(super) async fn seal_method(api: &Api, name: &str, bytes: &[u8]) -> Result<Sealed, HttpError> {
    seal(api, Purpose::Methods, name, bytes).await
}

/// The secrets of an auth method.
///
/// # Errors
/// 503 where this server cannot open them.
pub(super) fn open_method(api: &Api, name: &str, sealed: &Sealed) -> Result<Vec<u8>, HttpError> {
    let opened = api.keyring.open(Purpose::Methods, name.as_bytes(), sealed);
    opened.map(|bytes| bytes.to_vec()).map_err(refused)
}

async fn seal(api: &Api, purpose: Purpose, place: &str, bytes: &[u8]) -> Result<Sealed, HttpError> {
    // Without a root key because of an older server, its name says what to do.
    let probe = AclPolicies::Delete { names: Vec::new() };
    if let Err(why) = api.cluster.understood(&probe.into()) {
        return Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let sealed = seal_soon(&api.keyring, purpose, (place, bytes), FIRST_KEY_WITHIN);
    sealed.await.map_err(refused)
}

fn refused(error: KeyringError) -> HttpError {
    let status = match error.is_unavailable() {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::INTERNAL_SERVER_ERROR,
    };
    HttpError::new(status, error.to_string())
}
