//! Root keys are made: the first one by a leader, further ones by the leader's clock or an
//! operator.

use controlplane_keyring::{Kek, KeyringError, RootKey, RootKeyError, fresh_nonce};
use controlplane_state::RootKeyState;
use protocol_model::UnixNanos;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::service::KekService;

/// Why no root key was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    /// No KEK is there to wrap it.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The library made no key.
    #[error("no root key was made: {0}")]
    Failed(String),
}

/// Makes a root key for the log, wrapped with the KEK that wraps new keys here. It is active at
/// once, or from `publish_time` on.
///
/// # Errors
/// See [`MakeError`].
pub(crate) async fn new_root_key(
    service: &KekService,
    publish_time: Option<UnixNanos>,
) -> Result<controlplane_state::RootKey, MakeError> {
    // A first key that is in the state may be on its way into the keyring.
    service.follows(None).await;
    let kek = service.wrapping()?;
    // RSA: 100 ms of a processor.
    let made = spawn_blocking(move || wrapped(&kek, publish_time)).await;
    let made = made.map_err(|error| MakeError::Failed(error.to_string()))?;
    made.map_err(|error| MakeError::Failed(error.to_string()))
}

/// As [`new_root_key`], with this KEK; blocks.
pub(super) fn wrapped(
    kek: &Kek,
    publish_time: Option<UnixNanos>,
) -> Result<controlplane_state::RootKey, RootKeyError> {
    let id = Uuid::new_v4();
    let made = RootKey::generate()?;
    let public = made.public().clone();
    Ok(controlplane_state::RootKey {
        id,
        number: 0,
        kek_id: *kek.id().as_bytes(),
        wrapped: made.wrap(id, kek, fresh_nonce()),
        public_ed25519: public.ed25519.to_vec(),
        public_rsa: public.rsa,
        state: match publish_time {
            None => RootKeyState::Active,
            Some(_) => RootKeyState::Prepublished,
        },
        create_time: UnixNanos::ZERO,
        publish_time: publish_time.unwrap_or(UnixNanos::ZERO),
        state_time: UnixNanos::ZERO,
        seals: 0,
        create_index: 0,
        modify_index: 0,
    })
}
