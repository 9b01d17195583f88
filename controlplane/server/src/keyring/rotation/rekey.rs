//! Values move to the active root key: opened, sealed anew, and replaced in the log where nothing
//! was written since.

use controlplane_keyring::{Keyring, KeyringError, Purpose, fresh_nonce};
use controlplane_state::command::{
    REKEY_VALUES_MAX, Resealed, ResealedVariable, TokensRekey, VariablesRekey,
};
use controlplane_state::{Sealed, Snapshot, Variable};
use tokio::time::sleep;

use super::{Leading, REST, StepError};

/// Bytes of sealed values in one entry.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// A secret that an old key sealed.
struct Old {
    purpose: Purpose,
    name: String,
    sealed: Sealed,
}

/// Moves the secrets of tokens and auth methods away from a key.
///
/// # Errors
/// Where the log does not take them, or the active key is not usable here; once all others moved,
/// where some do not open.
pub(super) async fn tokens(leading: Leading<'_>, number: u32) -> Result<(), StepError> {
    let old = secrets(&leading.cluster.snapshot(), number);
    let mut rest = old.as_slice();
    let (mut moved, mut shut) = (0, 0);
    while !rest.is_empty() {
        let length = fitting(rest.iter().map(|secret| secret.sealed.bytes.len()));
        let (entry, left) = rest.split_at(length);
        rest = left;
        let mut rekey = TokensRekey::default();
        for secret in entry {
            match reseal(leading.service.keyring(), secret) {
                Ok(resealed) if secret.purpose == Purpose::Tokens => rekey.tokens.push(resealed),
                Ok(resealed) => rekey.methods.push(resealed),
                Err(error @ KeyringError::Damaged { .. }) => {
                    shut += 1;
                    tracing::error!(of = secret.name, %error, "a secret stays with its key");
                }
                Err(error) => return Err(error.into()),
            }
        }
        moved += rekey.tokens.len() + rekey.methods.len();
        if rekey != TokensRekey::default() {
            leading.propose(rekey.into()).await?;
            sleep(REST).await;
        }
    }
    tracing::info!(
        root_key = number,
        moved,
        "secrets moved to the active root key"
    );
    match shut {
        0 => Ok(()),
        shut => Err(StepError::Shut(shut)),
    }
}

/// How many values of these lengths travel together: one at least.
fn fitting(lengths: impl IntoIterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fitting = lengths
        .into_iter()
        .take(REKEY_VALUES_MAX)
        .take_while(|length| {
            bytes += length;
            bytes <= ENTRY_BYTES_MAX
        });
    fitting.count().max(1)
}

fn secrets(snapshot: &Snapshot, number: u32) -> Vec<Old> {
    let old = |purpose, name: &String, sealed: &Option<Sealed>| {
        let sealed = sealed.as_ref().filter(|sealed| sealed.key == number)?;
        Some(Old {
            purpose,
            name: name.clone(),
            sealed: sealed.clone(),
        })
    };
    let tokens = snapshot.acl_tokens();
    let tokens = tokens.filter_map(|it| old(Purpose::Tokens, &it.accessor_id, &it.sealed));
    let methods = snapshot.auth_methods();
    let methods = methods.filter_map(|it| old(Purpose::Methods, &it.name, &it.sealed));
    tokens.chain(methods).collect()
}

fn reseal(keyring: &Keyring, secret: &Old) -> Result<Resealed, KeyringError> {
    let Old {
        purpose,
        name,
        sealed,
    } = secret;
    let opened = keyring.open(*purpose, name.as_bytes(), sealed)?;
    Ok(Resealed {
        name: name.clone(),
        key: sealed.key,
        nonce: sealed.nonce,
        sealed: keyring.seal(*purpose, name.as_bytes(), &opened, fresh_nonce())?,
    })
}

/// Moves the values of variables away from a key.
///
/// # Errors
/// As [`tokens`].
pub(super) async fn variables(leading: Leading<'_>, number: u32) -> Result<(), StepError> {
    let snapshot = leading.cluster.snapshot();
    let old: Vec<_> = snapshot.variables_of_root_key(number).cloned().collect();
    let mut rest = old.as_slice();
    let (mut moved, mut shut) = (0, 0);
    while !rest.is_empty() {
        let length = fitting(rest.iter().map(|variable| variable.sealed.bytes.len()));
        let (entry, left) = rest.split_at(length);
        rest = left;
        let mut rekey = VariablesRekey::default();
        for variable in entry {
            match reseal_variable(leading.service.keyring(), variable) {
                Ok(resealed) => rekey.variables.push(resealed),
                Err(error @ KeyringError::Damaged { .. }) => {
                    shut += 1;
                    let path = &variable.key;
                    tracing::error!(%path, %error, "a variable stays with its key");
                }
                Err(error) => return Err(error.into()),
            }
        }
        moved += rekey.variables.len();
        if !rekey.variables.is_empty() {
            leading.propose(rekey.into()).await?;
            sleep(REST).await;
        }
    }
    tracing::info!(
        root_key = number,
        moved,
        "variables moved to the active root key"
    );
    match shut {
        0 => Ok(()),
        shut => Err(StepError::Shut(shut)),
    }
}

fn reseal_variable(
    keyring: &Keyring,
    variable: &Variable,
) -> Result<ResealedVariable, KeyringError> {
    let Variable { key, sealed, .. } = variable;
    let items = keyring.open_variable(key, sealed)?;
    Ok(ResealedVariable {
        key: key.clone(),
        replaces: (sealed.key, sealed.nonce),
        sealed: keyring.seal_variable(key, &items, fresh_nonce())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_200_values_or_a_mebibyte_and_one_at_least() {
        assert_eq!(fitting([10; 500]), 200);
        assert_eq!(fitting([100_000; 500]), 10);
        assert_eq!(fitting([ENTRY_BYTES_MAX + 1, 1]), 1);
        assert_eq!(fitting([5, ENTRY_BYTES_MAX]), 1);
        assert_eq!(fitting([5, 5]), 2);
    }
}
