//! Root keys as the log has them: wrapped by a KEK.

use aws_lc_rs::aead::Aad;
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
    /// Its number, by which sealed values name it.
    pub number: u32,
    /// Its id.
    pub id: Uuid,
    /// The KEK that wraps it.
    pub kek: KekId,
    /// The nonce (12 bytes), then AES-256-GCM of the seed (32 bytes) and the PKCS#8 document, then
    /// the tag (16 bytes).
    pub bytes: Vec<u8>,
}

impl RootKey {
    /// Wraps it as the root key of this id. Answers [`WrappedRootKey::bytes`].
    pub fn wrap(&self, id: Uuid, kek: &Kek, nonce: Nonce) -> Vec<u8> {
        // The material is sealed in place: no copy of it is left behind.
        let mut material = self.reveal();
        let aad = Aad::from(aad(id, kek.id()));
        let tag = aead_key(kek.reveal())
            .seal_in_place_separate_tag((&nonce).into(), aad, &mut material)
            .expect("a root key is shorter than AES-256-GCM's limit");
        [&nonce, material.as_slice(), tag.as_ref()].concat()
    }
}

impl WrappedRootKey {
    /// Unwraps it with `kek`.
    ///
    /// # Errors
    /// [`KeyringError::Missing`] where another KEK wraps it, [`KeyringError::Unusable`] where this
    /// one does not open it or the content is no root key.
    pub fn unwrap_with(&self, kek: &Kek) -> Result<RootKey, KeyringError> {
        let Self {
            number,
            id,
            kek: wrapping,
            bytes,
        } = self;
        if kek.id() != *wrapping {
            return Err(KeyringError::Missing { kek: *wrapping });
        }
        let unusable = KeyringError::Unusable {
            kek: *wrapping,
            key: *number,
        };
        let (nonce, sealed) = match bytes.split_first_chunk::<{ size_of::<Nonce>() }>() {
            Some(parts) if bytes.len() <= WRAPPED_BYTES_MAX => parts,
            _ => return Err(unusable),
        };
        let mut material = Zeroizing::new(sealed.to_vec());
        let aad = Aad::from(aad(*id, *wrapping));
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
