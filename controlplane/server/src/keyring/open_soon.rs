//! Variables while root keys change: the keyring takes over the root keys of the state a moment
//! after the state has them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use controlplane_keyring::{Keyring, KeyringError};
use controlplane_state::Variable;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

/// How long the keyring may take to follow the root keys of the state.
const KEYRING_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at the keyring.
const PAUSE: Duration = Duration::from_millis(20);

/// Opens the items of a variable. A value that moved to a key which the keyring does not have yet
/// waits for it. `newest` is the variable as the newest state has it: the same items may have moved
/// on meanwhile, and their key may have gone.
///
/// # Errors
/// The errors of the keyring.
pub(crate) async fn open_variable_soon(
    keyring: &Keyring,
    variable: &Variable,
    newest: impl Fn() -> Option<Arc<Variable>>,
) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
    let deadline = Instant::now() + KEYRING_WITHIN;
    let mut sealed = Cow::Borrowed(&variable.sealed);
    loop {
        match keyring.open_variable(&variable.key, &sealed) {
            Err(KeyringError::UnknownKey { .. }) if Instant::now() < deadline => {}
            opened => return opened,
        }
        sleep(PAUSE).await;
        let same = newest().filter(|row| row.modify_index == variable.modify_index);
        if let Some(row) = same {
            sealed = Cow::Owned(row.sealed.clone());
        }
    }
}

/// Waits until the keyring seals with another key than `gone`, at most so long.
pub(crate) async fn seals_without(keyring: &Keyring, gone: u32) {
    let deadline = Instant::now() + KEYRING_WITHIN;
    let sealing = || keyring.active().map(|(number, _)| number);
    while sealing() == Some(gone) && Instant::now() < deadline {
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use controlplane_keyring::{Kek, KekId, RootKeys, WrappedRootKey, fresh_nonce};
    use controlplane_state::{Sealed, VariableKey};
    use protocol_model::UnixNanos;

    use super::*;
    use crate::keyring::make::wrapped;

    /// Keys 1 and 2, and a keyring that has the first one.
    fn keys() -> (Keyring, RootKeys) {
        let kek = Kek::generate();
        let wrapped = [1, 2].map(|number| {
            let key = wrapped(&kek, None).expect("a key");
            WrappedRootKey {
                number,
                id: key.id,
                kek: KekId::from(key.kek_id),
                bytes: key.wrapped,
            }
        });
        let both = RootKeys {
            wrapped: wrapped.to_vec(),
            active: Some(2),
        };
        let keyring = Keyring::default();
        keyring.add_kek(kek);
        keyring.set_root_keys(only(&both, 1));
        (keyring, both)
    }

    fn only(keys: &RootKeys, number: u32) -> RootKeys {
        let wrapped = keys.wrapped.iter().filter(|key| key.number == number);
        RootKeys {
            wrapped: wrapped.cloned().collect(),
            active: Some(number),
        }
    }

    fn variable(sealed: Sealed) -> Variable {
        Variable {
            key: VariableKey::new("default", "app"),
            sealed,
            create_time: UnixNanos::ZERO,
            modify_time: UnixNanos::ZERO,
            create_index: 7,
            modify_index: 7,
            lock: None,
        }
    }

    fn sealed(keyring: &Keyring) -> Variable {
        let key = VariableKey::new("default", "app");
        let sealed = keyring.seal_variable(&key, b"{}", fresh_nonce());
        variable(sealed.expect("it is sealed"))
    }

    /// Another server, which has both keys.
    fn other(keyring: &Keyring, both: &RootKeys) -> Keyring {
        let other = Keyring::default();
        for id in keyring.keks() {
            other.add_kek(keyring.kek(id).expect("a KEK"));
        }
        other.set_root_keys(both.clone());
        other
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_of_a_key_that_comes_later_opens_when_it_is_there() {
        let (keyring, both) = keys();
        let moved = sealed(&other(&keyring, &both));
        let opening = open_variable_soon(&keyring, &moved, || None);
        let coming = async {
            sleep(Duration::from_secs(1)).await;
            keyring.set_root_keys(both.clone());
        };
        let (opened, ()) = tokio::join!(opening, coming);
        assert_eq!(opened.expect("it opens").as_slice(), b"{}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_that_moved_while_its_key_went_opens_where_it_is() {
        let (keyring, both) = keys();
        let read = sealed(&keyring);
        let moved = Arc::new(sealed(&other(&keyring, &both)));
        keyring.set_root_keys(only(&both, 2));
        let opened = open_variable_soon(&keyring, &read, || Some(Arc::clone(&moved))).await;
        assert_eq!(opened.expect("it opens").as_slice(), b"{}");
        // Another version of the variable is not the one that was read.
        let newer = Arc::new(Variable {
            modify_index: 8,
            ..Variable::clone(&moved)
        });
        let opened = open_variable_soon(&keyring, &read, || Some(Arc::clone(&newer))).await;
        assert_eq!(opened.err(), Some(KeyringError::UnknownKey { key: 1 }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_seal_waits_until_the_keyring_has_another_active_key() {
        let (keyring, both) = keys();
        let coming = async {
            sleep(Duration::from_secs(1)).await;
            keyring.set_root_keys(both.clone());
        };
        tokio::join!(seals_without(&keyring, 1), coming);
        assert_eq!(keyring.active().map(|(number, _)| number), Some(2));
        let begun = Instant::now();
        seals_without(&keyring, 1).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "another key seals");
        seals_without(&keyring, 2).await;
        assert!(
            begun.elapsed() >= KEYRING_WITHIN,
            "it does not wait for ever"
        );
    }
}
