//! Root keys as the log has them: wrapped by a KEK.

use aws_lc_rs::aead::{AES_256_GCM, Aad};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::error::KeyringError;
use crate::kek::{Kek, KekId};
use crate::root_key::{RootKey, aead_key};
use crate::sealed::Nonce;

/// The largest wrapped key, bytes: seed, PKCS#8 document and tag have about 1,270.
const WRAPPED_BYTES_MAX: usize = 8192;
/// The first part of the associated data.
const AAD: &[u8] = b"drover-root-key/1";
const AAD_BYTES: usize = AAD.len() + 16 + KekId::BYTES;

/// A root key that only the holder of a KEK can read. Nothing in it is secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrappedRootKey {
    /// The root key's id.
    pub key: Uuid,
    /// The KEK that wraps it.
    pub kek: KekId,
    /// The nonce that it was wrapped with.
    pub nonce: Nonce,
    /// AES-256-GCM of the seed (32 bytes) and the PKCS#8 document, and its tag of 16 bytes.
    pub bytes: Vec<u8>,
}

impl RootKey {
    /// Wraps it as the root key of id `key`.
    pub fn wrap(&self, key: Uuid, kek: &Kek, nonce: Nonce) -> WrappedRootKey {
        // The material is sealed in place: no copy of the material is left behind.
        let mut bytes = self.reveal(AES_256_GCM.tag_len());
        let aad = Aad::from(aad(key, kek.id()));
        aead_key(kek.reveal())
            .seal_in_place_append_tag((&nonce).into(), aad, &mut *bytes)
            .expect("a root key is shorter than AES-256-GCM's limit");
        WrappedRootKey {
            key,
            kek: kek.id(),
            nonce,
            bytes: std::mem::take(&mut *bytes),
        }
    }
}

impl WrappedRootKey {
    /// Unwraps it with `kek`.
    ///
    /// # Errors
    /// [`KeyringError::Missing`] where another KEK wraps it, [`KeyringError::Unusable`] where this
    /// one does not open it or what it opens is no root key.
    pub fn unwrap_with(&self, kek: &Kek) -> Result<RootKey, KeyringError> {
        let Self {
            key,
            kek: id,
            nonce,
            bytes,
        } = self;
        let (key, id) = (*key, *id);
        if kek.id() != id {
            return Err(KeyringError::Missing { kek: id });
        }
        let unusable = KeyringError::Unusable { kek: id, key };
        if bytes.len() > WRAPPED_BYTES_MAX {
            return Err(unusable);
        }
        let mut material = Zeroizing::new(bytes.clone());
        let aad = Aad::from(aad(key, id));
        let opened = aead_key(kek.reveal()).open_in_place(nonce.into(), aad, &mut material);
        match opened {
            Ok(material) => RootKey::from_material(material).map_err(|_| unusable),
            Err(_) => Err(unusable),
        }
    }
}

fn aad(key: Uuid, kek: KekId) -> [u8; AAD_BYTES] {
    let mut aad = [0; AAD_BYTES];
    let (head, ids) = aad.split_at_mut(AAD.len());
    let (of_key, of_kek) = ids.split_at_mut(16);
    head.copy_from_slice(AAD);
    of_key.copy_from_slice(key.as_bytes());
    of_kek.copy_from_slice(kek.as_bytes());
    aad
}
