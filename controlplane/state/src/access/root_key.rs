//! Root keys: secrets are sealed and identities signed with keys that are derived from them.

use std::fmt;

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{hex, is_zero};

/// The most root keys that a cluster keeps.
pub const ROOT_KEYS_MAX: usize = 256;

/// A root key, wrapped by a key-encryption key that is in no log and no checkpoint.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootKey {
    /// Its id: the `kid` of what it signs.
    pub id: Uuid,
    /// Its number, by which sealed values name it. `apply` gives it, from 1 on; no number is given
    /// twice.
    #[serde(default)]
    pub number: u32,
    /// The key-encryption key that wraps it.
    #[serde(with = "hex")]
    pub kek_id: [u8; 8],
    /// The wrapped key: the nonce that it was wrapped with (12 bytes), ciphertext and tag.
    #[serde(with = "hex")]
    pub wrapped: Vec<u8>,
    /// The public half of its Ed25519 key.
    #[serde(with = "hex")]
    pub public_ed25519: Vec<u8>,
    /// The public half of its RSA key: PKCS#1 in DER.
    #[serde(with = "hex")]
    pub public_rsa: Vec<u8>,
    /// Its state.
    pub state: RootKeyState,
    /// The time of its creation.
    #[serde(default)]
    pub create_time: UnixNanos,
    /// The time from which it may become active; zero = at once.
    #[serde(default)]
    pub publish_time: UnixNanos,
    /// The time of its last change of state; zero = it has the state of its creation.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub state_time: UnixNanos,
    /// How many values were sealed with it, in all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seals: u64,
    /// The log index of its creation.
    #[serde(default)]
    pub create_index: u64,
    /// The log index of its last change. Sealing is none.
    #[serde(default)]
    pub modify_index: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_unset(time: &UnixNanos) -> bool {
    time.is_zero()
}

/// The state of a root key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootKeyState {
    /// Its public halves are shown; it does not sign yet.
    Prepublished,
    /// It seals and signs. One key at a time does.
    Active,
    /// Values that it sealed move to the active key.
    Rekeying,
    /// It opens and verifies.
    Inactive,
}

impl RootKeyState {
    /// The state as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepublished => "prepublished",
            Self::Active => "active",
            Self::Rekeying => "rekeying",
            Self::Inactive => "inactive",
        }
    }
}

impl RootKey {
    /// The id of the key-encryption key that wraps it, as hexadecimal text.
    pub fn kek_id_text(&self) -> String {
        hex::text(&self.kek_id)
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootKey")
            .field("id", &self.id)
            .field("number", &self.number)
            .field("kek_id", &self.kek_id_text())
            .field("state", &self.state)
            .field("seals", &self.seals)
            .field("create_index", &self.create_index)
            .field("modify_index", &self.modify_index)
            .finish_non_exhaustive()
    }
}
