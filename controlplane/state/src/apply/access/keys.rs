//! Root keys.

use std::sync::Arc;

use super::{check_room, outcome};
use crate::access::{ROOT_KEYS_MAX, RootKey, RootKeyState};
use crate::applied::{AccessRefusal, AccessRows, Outcome, Refusal, Signal};
use crate::apply::Draft;
use crate::command::RootKeyUpsert;

/// The longest wrapped key and public half, in bytes: an RSA key of 4,096 bits fits.
const KEY_BYTES_MAX: usize = 8 * 1024;

impl Draft {
    /// Adds a root key. A leader that is lost while it makes the first one leaves one, since the
    /// next leader's proposal names no key to replace either.
    pub(super) fn root_key_upsert(&mut self, command: RootKeyUpsert) -> Result<Outcome, Refusal> {
        let RootKeyUpsert { mut key, replaces } = command;
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
            RootKeyState::Active | RootKeyState::Prepublished => {}
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
        key.seals = 0;
        key.create_index = self.index;
        key.modify_index = self.index;
        if let Some(active) = active.filter(|_| key.state == RootKeyState::Active) {
            self.tables.put_root_key(RootKey {
                state: RootKeyState::Inactive,
                modify_index: self.index,
                ..RootKey::clone(&active)
            });
        }
        self.tables.put_root_key(key);
        self.signal(Signal::RootKeysChanged);
        Ok(outcome(true))
    }
}
