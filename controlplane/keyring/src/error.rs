//! Why something cannot be sealed or opened.

use crate::kek::KekId;
use crate::sealed::SEAL_BYTES_MAX;

/// Why something cannot be sealed or opened. The texts are answered to callers of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyringError {
    /// This server lacks the KEK that wraps the root key.
    #[error("the keyring is not available on this server: KEK {kek} is missing")]
    Missing {
        /// The KEK.
        kek: KekId,
    },
    /// The KEK is here and does not open the root key.
    #[error(
        "the keyring is not available on this server: KEK {kek} does not open root key {key}, \
         which is damaged"
    )]
    Unusable {
        /// The KEK.
        kek: KekId,
        /// The root key.
        key: u32,
    },
    /// The cluster has no root key: its first leader makes one, once every server is new enough.
    #[error("the keyring is not available on this server: the cluster has no root key yet")]
    NoRootKey,
    /// The state does not hold the root key that the value was sealed with.
    #[error("root key {key}, which a value is sealed with, is not in the keyring")]
    UnknownKey {
        /// The root key.
        key: u32,
    },
    /// The value was changed, or belongs to another place.
    #[error("a value sealed with root key {key} does not open: it was changed or moved")]
    Damaged {
        /// The root key.
        key: u32,
    },
    /// The value is too large.
    #[error("{bytes} bytes are too many to be sealed: at most {SEAL_BYTES_MAX} are")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
}

impl KeyringError {
    /// Whether another server, or this one later, may do it: an answer of 503, not 500.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Unusable { .. } | Self::NoRootKey => true,
            Self::UnknownKey { .. } | Self::Damaged { .. } | Self::TooLarge { .. } => false,
        }
    }
}
