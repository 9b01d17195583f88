//! Sealing that waits for the first root key, which a leader makes in the moment after it leads.

use std::time::Duration;

use controlplane_keyring::{Keyring, KeyringError, Purpose, fresh_nonce};
use controlplane_state::Sealed;
use tokio::time::{Instant, sleep};

/// How long the first token waits for it: an RSA key takes seconds on a busy machine. Without the
/// key, the token's secret is shown once.
const FIRST_TOKEN_WAITS: Duration = Duration::from_secs(5);
/// Between two looks at the keyring.
const PAUSE: Duration = Duration::from_millis(20);

/// Seals bytes for their place, within `wait` where there is no root key yet.
///
/// # Errors
/// The errors of the keyring.
pub(crate) async fn seal_soon(
    keyring: &Keyring,
    purpose: Purpose,
    (place, bytes): (&str, &[u8]),
    wait: Duration,
) -> Result<Sealed, KeyringError> {
    let deadline = Instant::now() + wait;
    loop {
        let nonce = fresh_nonce();
        match keyring.seal(purpose, place.as_bytes(), bytes, nonce) {
            Err(KeyringError::NoRootKey) if Instant::now() < deadline => sleep(PAUSE).await,
            sealed => return sealed,
        }
    }
}

/// Seals the secret of the first token: `None` where that cannot be, so that a missing key locks no
/// operator out.
pub(crate) async fn seal_first_token(
    keyring: &Keyring,
    accessor_id: &str,
    secret: &str,
) -> Option<Sealed> {
    let value = (accessor_id, secret.as_bytes());
    let sealed = seal_soon(keyring, Purpose::Tokens, value, FIRST_TOKEN_WAITS).await;
    sealed.ok()
}
