//! Items of variables: checked, sealed for their place, opened for answers.

use std::time::Duration;

use axum::http::StatusCode;
use controlplane_keyring::{KeyringError, fresh_nonce};
use controlplane_state::command::VariableLocksExpire;
use controlplane_state::{
    AccessRefusal, Refusal, Sealed, VARIABLE_ITEMS_BYTES_MAX, Variable, VariableKey,
};
use protocol_api::variables::VariableItems;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use crate::cluster::ChangeError;
use crate::http::Api;
use crate::http::error::HttpError;
use crate::keyring::{open_variable_soon, seals_without};

/// How long the first root key may take: a leader makes it in the moment after it leads.
const FIRST_KEY_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at the keyring.
const PAUSE: Duration = Duration::from_millis(20);
/// How often items are sealed again because their key was gone by the time of the entry.
const SEALED_AGAIN_MAX: u32 = 3;

/// Checks the size of items: of keys and values together, as in Nomad.
///
/// # Errors
/// 400 where they are too large.
pub(super) fn check(items: &VariableItems) -> Result<(), HttpError> {
    let sizes = items
        .iter()
        .map(|(key, value)| key.len() + value.reveal().len());
    if sizes.sum::<usize>() > VARIABLE_ITEMS_BYTES_MAX {
        return Err(HttpError::bad_request(
            "variables are limited to 64KiB in total size",
        ));
    }
    Ok(())
}

/// Seals items for their place.
///
/// # Errors
/// 503 where a server is too old for variables, or this one cannot seal: with the key that it
/// lacks.
pub(super) async fn seal(
    api: &Api,
    key: &VariableKey,
    items: &VariableItems,
) -> Result<Sealed, HttpError> {
    // Without a root key because of an older server, its name says what to do.
    let probe = VariableLocksExpire { locks: Vec::new() };
    if let Err(why) = api.cluster.understood(&probe.into()) {
        return Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let json = serde_json::to_vec(items)
        .map_err(|error| HttpError::internal(format!("the items cannot be written: {error}")))?;
    let json = Zeroizing::new(json);
    let deadline = Instant::now() + FIRST_KEY_WITHIN;
    loop {
        match api.keyring.seal_variable(key, &json, fresh_nonce()) {
            Err(KeyringError::NoRootKey) if Instant::now() < deadline => sleep(PAUSE).await,
            sealed => return sealed.map_err(refused),
        }
    }
}

/// Opens the items of a variable. The keyring takes over a new root key a moment after the state
/// has it, so a value that moved to that key waits for it.
///
/// # Errors
/// 503 where this server lacks the key; 500 where they are damaged.
pub(super) async fn open(api: &Api, variable: &Variable) -> Result<VariableItems, HttpError> {
    let key = &variable.key;
    let newest = || api.cluster.snapshot().variable(key).cloned();
    let opened = open_variable_soon(&api.keyring, variable, newest).await;
    let opened = opened.map_err(refused)?;
    serde_json::from_slice(&opened).map_err(|_| {
        // The error would quote the items.
        HttpError::internal(format!("the items of variable {key} are damaged"))
    })
}

/// How often one request sealed its items again.
#[derive(Debug, Default)]
pub(super) struct SealedAgain(u32);

impl SealedAgain {
    /// Whether the items are to be sealed again, because their key went or rests meanwhile: waits
    /// until the keyring seals with another one.
    pub(super) async fn is_due(&mut self, api: &Api, error: &ChangeError) -> bool {
        let ChangeError::Refused(Refusal::Access(AccessRefusal::SealingKeyGone(gone))) = error
        else {
            return false;
        };
        self.0 += 1;
        if self.0 > SEALED_AGAIN_MAX {
            return false;
        }
        seals_without(&api.keyring, *gone).await;
        true
    }
}

fn refused(error: KeyringError) -> HttpError {
    let status = match error.is_unavailable() {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::INTERNAL_SERVER_ERROR,
    };
    HttpError::new(status, error.to_string())
}

#[cfg(test)]
mod tests {
    use protocol_model::SecretText;

    use super::*;

    #[test]
    fn keys_and_values_together_have_at_most_64_kib() {
        let items = |value: usize| {
            let value = SecretText::new("v".repeat(value));
            VariableItems::from([("key".to_owned(), value)])
        };
        assert_eq!(check(&items(VARIABLE_ITEMS_BYTES_MAX - 3)), Ok(()));
        let text = "variables are limited to 64KiB in total size";
        let over = check(&items(VARIABLE_ITEMS_BYTES_MAX - 2));
        assert_eq!(over, Err(HttpError::bad_request(text)));
    }
}
