//! Root keys.

use std::sync::Arc;

use protocol_model::UnixNanos;

use super::{check_room, outcome};
use crate::access::{ROOT_KEYS_MAX, RootKey, RootKeyState};
use crate::applied::{AccessRefusal, AccessRows, Outcome, Refusal, Signal};
use crate::apply::Draft;
use crate::command::{KeyRemoval, RootKeyChange, RootKeyUpsert, Rotation};

/// The longest wrapped key and public half, in bytes: an RSA key of 4,096 bits fits.
const KEY_BYTES_MAX: usize = 8 * 1024;

impl Draft {
    /// Adds a root key. A leader that is lost while it makes the first one leaves one, since the
    /// next leader's proposal names no key to replace either.
    pub(super) fn root_key_upsert(&mut self, command: RootKeyUpsert) -> Result<Outcome, Refusal> {
        let RootKeyUpsert {
            mut key,
            replaces,
            rotation,
        } = command;
        let active = self.tables.active_root_key().map(Arc::clone);
        let found = active.as_ref().map_or(0, |active| active.number);
        let wanted = replaces.unwrap_or(0);
        if found != wanted {
            return Err(AccessRefusal::RootKeyMoved { wanted, found }.into());
        }
        if self.tables.root_key_by_id(key.id).is_some() {
            return Err(AccessRefusal::RootKeyExists(key.id).into());
        }
        let parts = [&key.wrapped, &key.public_ed25519, &key.public_rsa];
        if parts.iter().any(|part| part.len() > KEY_BYTES_MAX) {
            return Err(Refusal::malformed("a part of a root key is too long"));
        }
        match key.state {
            RootKeyState::Active => {}
            RootKeyState::Prepublished if active.is_some() => {}
            RootKeyState::Prepublished => {
                return Err(Refusal::malformed("the first root key is active"));
            }
            RootKeyState::Rekeying | RootKeyState::Inactive => {
                return Err(Refusal::malformed(
                    "a new root key is active or prepublished",
                ));
            }
        }
        let count = self.tables.access.root_keys.len();
        check_room(AccessRows::RootKeys, count, ROOT_KEYS_MAX)?;
        let numbered = self.tables.access.root_keys_numbered;
        key.number = numbered
            .checked_add(1)
            .ok_or_else(|| Refusal::malformed("all numbers of root keys are used up"))?;
        key.create_time = self.now;
        key.state_time = UnixNanos::ZERO;
        key.seals = 0;
        key.create_index = self.index;
        key.modify_index = self.index;
        if let Some(active) = active.filter(|_| key.state == RootKeyState::Active) {
            let state = match rotation {
                Rotation::Plain => RootKeyState::Inactive,
                Rotation::Full => RootKeyState::Rekeying,
            };
            self.put_root_key_state(&active, state);
            if rotation == Rotation::Full {
                self.rekey_inactive();
            }
        }
        self.tables.put_root_key(key);
        self.signal(Signal::RootKeysChanged);
        Ok(outcome(true))
    }

    /// Keys of earlier rotations whose variables did not move: they do now.
    fn rekey_inactive(&mut self) {
        let inactive = self.tables.root_keys();
        let inactive = inactive.filter(|key| key.state == RootKeyState::Inactive);
        let sealing = |key: &&Arc<RootKey>| self.tables.sealed_with(key.number).variables > 0;
        let keys: Vec<_> = inactive.filter(sealing).map(Arc::clone).collect();
        for key in keys {
            self.put_root_key_state(&key, RootKeyState::Rekeying);
        }
    }

    fn put_root_key_state(&mut self, key: &RootKey, state: RootKeyState) {
        self.tables.put_root_key(RootKey {
            state,
            state_time: self.now,
            modify_index: self.index,
            ..key.clone()
        });
    }

    pub(super) fn root_key_change(&mut self, change: RootKeyChange) -> Result<Outcome, Refusal> {
        let number = change.number();
        let key = self.tables.root_key(number).map(Arc::clone);
        let key = key.ok_or(AccessRefusal::RootKeyNotFound(number))?;
        match change {
            RootKeyChange::Activate { .. } => self.activate_root_key(&key)?,
            RootKeyChange::EndRekey { .. } => {
                check_state(&key, RootKeyState::Rekeying)?;
                let left = self.tables.sealed_with(number);
                if left.variables > 0 {
                    return Err(AccessRefusal::RootKeySeals { id: key.id, left }.into());
                }
                self.put_root_key_state(&key, RootKeyState::Inactive);
            }
            RootKeyChange::Rewrap {
                before,
                kek_id,
                wrapped,
                ..
            } => {
                if key.kek_id != before {
                    return Err(AccessRefusal::RootKeyRewrapped(key.id).into());
                }
                if wrapped.len() > KEY_BYTES_MAX {
                    return Err(Refusal::malformed("a part of a root key is too long"));
                }
                self.tables.put_root_key(RootKey {
                    kek_id,
                    wrapped,
                    modify_index: self.index,
                    ..RootKey::clone(&key)
                });
            }
            RootKeyChange::Remove { rule, .. } => self.remove_root_key(&key, rule)?,
        }
        self.signal(Signal::RootKeysChanged);
        Ok(outcome(true))
    }

    fn activate_root_key(&mut self, key: &RootKey) -> Result<(), AccessRefusal> {
        check_state(key, RootKeyState::Prepublished)?;
        if key.publish_time > self.now {
            return Err(AccessRefusal::RootKeyTooEarly(key.id));
        }
        if let Some(active) = self.tables.active_root_key().map(Arc::clone) {
            self.put_root_key_state(&active, RootKeyState::Inactive);
        }
        self.put_root_key_state(key, RootKeyState::Active);
        Ok(())
    }

    /// Removes a key by its use: the counters of the entry before decide, not the proposer's look.
    fn remove_root_key(&mut self, key: &RootKey, rule: KeyRemoval) -> Result<(), AccessRefusal> {
        if key.state == RootKeyState::Active {
            return Err(AccessRefusal::RootKeyActive);
        }
        let left = self.tables.sealed_with(key.number);
        match rule {
            KeyRemoval::Unused if self.tables.needs_root_key(key.number) => {
                return Err(AccessRefusal::RootKeyInUse);
            }
            KeyRemoval::Forced if !left.is_empty() => {
                let id = key.id;
                return Err(AccessRefusal::RootKeySeals { id, left });
            }
            KeyRemoval::Unused | KeyRemoval::Forced => {}
        }
        self.tables.remove_root_key(key.number);
        Ok(())
    }
}

fn check_state(key: &RootKey, wanted: RootKeyState) -> Result<(), AccessRefusal> {
    let (id, found) = (key.id, key.state);
    match found == wanted {
        true => Ok(()),
        false => Err(AccessRefusal::RootKeyState { id, wanted, found }),
    }
}
