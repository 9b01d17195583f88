//! The keyring of one server: the KEKs that it has, the root keys that the state names, and of
//! these the ones that it could unwrap. Clones share everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad};
use controlplane_state::{Sealed, Snapshot};
use parking_lot::RwLock;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::error::KeyringError;
use crate::kek::{Kek, KekId};
use crate::purpose::Purpose;
use crate::root_key::RootKey;
use crate::sealed::{Nonce, SEAL_BYTES_MAX, fresh_nonce};
use crate::wrapped::WrappedRootKey;

/// The root keys of the state, as one entry of the log left them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RootKeys {
    /// All of them, wrapped.
    pub wrapped: Vec<WrappedRootKey>,
    /// The one that seals; `None` where there is none yet.
    pub active: Option<u32>,
}

impl RootKeys {
    /// The root keys of a state.
    pub fn of(snapshot: &Snapshot) -> Self {
        let wrapped = snapshot.root_keys().map(|key| WrappedRootKey {
            number: key.number,
            id: key.id,
            kek: KekId::from(key.kek_id),
            bytes: key.wrapped.clone(),
        });
        Self {
            wrapped: wrapped.collect(),
            active: snapshot.active_root_key().map(|key| key.number),
        }
    }
}

/// See the top of this file.
#[derive(Clone, Default)]
pub struct Keyring {
    inner: Arc<RwLock<Inner>>,
}

#[derive(Default)]
struct Inner {
    keks: BTreeMap<KekId, Kek>,
    active: Option<u32>,
    keys: BTreeMap<u32, Slot>,
}

/// A root key of the state.
struct Slot {
    wrapped: WrappedRootKey,
    opened: Result<Arc<RootKey>, KeyringError>,
}

impl Keyring {
    /// Adds a KEK, and unwraps the root keys that waited for it.
    pub fn add_kek(&self, kek: Kek) {
        let mut inner = self.inner.write();
        for slot in inner.keys.values_mut() {
            if slot.wrapped.kek == kek.id() && slot.opened.is_err() {
                slot.opened = slot.wrapped.unwrap_with(&kek).map(Arc::new);
            }
        }
        inner.keks.insert(kek.id(), kek);
    }

    /// Takes over the root keys of the state. Keys that are unwrapped already stay so; keys that
    /// the state no longer has are dropped.
    pub fn set_root_keys(&self, keys: RootKeys) {
        let mut inner = self.inner.write();
        let mut before = std::mem::take(&mut inner.keys);
        for wrapped in keys.wrapped {
            let slot = match before.remove(&wrapped.number) {
                Some(slot) if slot.wrapped == wrapped && slot.opened.is_ok() => slot,
                _ => {
                    let missing = KeyringError::Missing { kek: wrapped.kek };
                    let kek = inner.keks.get(&wrapped.kek).ok_or(missing);
                    let opened = kek.and_then(|kek| wrapped.unwrap_with(kek));
                    Slot {
                        opened: opened.map(Arc::new),
                        wrapped,
                    }
                }
            };
            inner.keys.insert(slot.wrapped.number, slot);
        }
        inner.active = keys.active;
    }

    /// Seals `bytes` with the active root key. They open only with the same purpose and `aad`,
    /// which names the place that the value belongs to. `nonce` is a fresh one.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn seal(
        &self,
        purpose: Purpose,
        aad: &[u8],
        bytes: &[u8],
        nonce: Nonce,
    ) -> Result<Sealed, KeyringError> {
        self.seal_at(purpose, |_| aad.to_vec(), bytes, nonce)
    }

    /// The same where `aad` depends on the root key.
    pub(crate) fn seal_at(
        &self,
        purpose: Purpose,
        aad: impl FnOnce(Uuid) -> Vec<u8>,
        bytes: &[u8],
        nonce: Nonce,
    ) -> Result<Sealed, KeyringError> {
        if bytes.len() > SEAL_BYTES_MAX {
            return Err(KeyringError::TooLarge { bytes: bytes.len() });
        }
        let active = self.inner.read().active;
        let id = active.ok_or(KeyringError::NoRootKey)?;
        let (key, uuid) = self.root_key_and_id(id)?;
        let aad = aad(uuid);
        // Sealed in place, so that the allocation that held the clear bytes is the result.
        let mut sealed = Vec::with_capacity(bytes.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(bytes);
        key.sealing(purpose)
            .seal_in_place_append_tag((&nonce).into(), Aad::from(aad), &mut sealed)
            .expect("the value is shorter than AES-256-GCM's limit");
        Ok(Sealed {
            key: id,
            nonce,
            bytes: sealed,
        })
    }

    /// Opens what [`Self::seal`] made with the same purpose and `aad`.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn open(
        &self,
        purpose: Purpose,
        aad: &[u8],
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
        self.open_at(purpose, |_| aad.to_vec(), sealed)
    }

    /// The same where `aad` depends on the root key.
    pub(crate) fn open_at(
        &self,
        purpose: Purpose,
        aad: impl FnOnce(Uuid) -> Vec<u8>,
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
        let Sealed {
            key: id,
            nonce,
            bytes,
        } = sealed;
        let (key, uuid) = self.root_key_and_id(*id)?;
        let aad = aad(uuid);
        let mut opened = Zeroizing::new(bytes.clone());
        let length = key
            .sealing(purpose)
            .open_in_place(nonce.into(), Aad::from(aad), &mut opened)
            .map_err(|_| KeyringError::Damaged { key: *id })?
            .len();
        opened.truncate(length);
        Ok(opened)
    }

    /// Why nothing can be sealed here; `None` where it can.
    pub fn trouble(&self) -> Option<KeyringError> {
        let active = self.inner.read().active;
        let usable = active.ok_or(KeyringError::NoRootKey);
        usable.and_then(|id| self.root_key(id)).err()
    }

    /// Whether the KEKs that this server has open the active root key of another state.
    ///
    /// # Errors
    /// [`KeyringError::Missing`] or [`KeyringError::Unusable`].
    pub fn opens(&self, keys: &RootKeys) -> Result<(), KeyringError> {
        let active = keys.wrapped.iter();
        let active = active.filter(|key| Some(key.number) == keys.active);
        for wrapped in active {
            let missing = KeyringError::Missing { kek: wrapped.kek };
            let kek = self.kek(wrapped.kek).ok_or(missing)?;
            wrapped.unwrap_with(&kek)?;
        }
        Ok(())
    }

    /// The number of the root key that seals, and the id of the KEK that wraps it; `None` before
    /// the first.
    pub fn active(&self) -> Option<(u32, KekId)> {
        let inner = self.inner.read();
        let slot = inner.active.and_then(|id| inner.keys.get(&id))?;
        Some((slot.wrapped.number, slot.wrapped.kek))
    }

    /// A root key wrapped with another KEK: the one that wraps it now, and
    /// [`WrappedRootKey::bytes`].
    ///
    /// # Errors
    /// Where it is not known, or not unwrapped.
    pub fn rewrapped(&self, number: u32, kek: &Kek) -> Result<(KekId, Vec<u8>), KeyringError> {
        let key = self.root_key(number)?;
        let inner = self.inner.read();
        let slot = inner.keys.get(&number);
        let slot = slot.ok_or(KeyringError::UnknownKey { key: number })?;
        let wrapped = key.wrap(slot.wrapped.id, kek, fresh_nonce());
        Ok((slot.wrapped.kek, wrapped))
    }

    /// The KEKs that root keys of the state need and this server lacks.
    pub fn missing_keks(&self) -> BTreeSet<KekId> {
        let inner = self.inner.read();
        let needed = inner.keys.values().map(|slot| slot.wrapped.kek);
        needed.filter(|id| !inner.keks.contains_key(id)).collect()
    }

    /// The ids of the KEKs that this server has, the lowest first.
    pub fn keks(&self) -> Vec<KekId> {
        self.inner.read().keks.keys().copied().collect()
    }

    /// A KEK that this server has.
    pub fn kek(&self, id: KekId) -> Option<Kek> {
        self.inner.read().keks.get(&id).cloned()
    }

    pub(crate) fn id_of(&self, number: u32) -> Option<Uuid> {
        let inner = self.inner.read();
        inner.keys.get(&number).map(|slot| slot.wrapped.id)
    }

    pub(crate) fn root_key(&self, number: u32) -> Result<Arc<RootKey>, KeyringError> {
        self.root_key_and_id(number).map(|(key, _)| key)
    }

    fn root_key_and_id(&self, number: u32) -> Result<(Arc<RootKey>, Uuid), KeyringError> {
        let inner = self.inner.read();
        let slot = inner.keys.get(&number);
        let slot = slot.ok_or(KeyringError::UnknownKey { key: number })?;
        Ok((slot.opened.clone()?, slot.wrapped.id))
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Keyring");
        shown.field("keks", &self.keks());
        shown.field("active", &self.active());
        shown.finish_non_exhaustive()
    }
}
