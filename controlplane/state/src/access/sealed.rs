//! A secret as the state keeps it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::hex;

/// The longest sealed value, in bytes: an auth method's secrets with room for keys and
/// certificates.
pub const SEALED_BYTES_MAX: usize = 128 * 1024;

/// A value that is encrypted with a purpose key of a root key. The state never opens it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The number of the root key.
    pub key: u32,
    /// The nonce, drawn by the proposer.
    #[serde(with = "hex")]
    pub nonce: [u8; 12],
    /// Ciphertext and authentication tag.
    #[serde(with = "hex")]
    pub bytes: Vec<u8>,
}

/// How many values are sealed with a root key now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SealedCounts {
    /// Secrets of access tokens.
    pub tokens: u64,
    /// Secrets of auth methods.
    pub methods: u64,
    /// Values of variables.
    pub variables: u64,
}

impl SealedCounts {
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for SealedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tokens,
            methods,
            variables,
        } = self;
        write!(
            f,
            "{variables} variables, {tokens} secrets of tokens and {methods} of auth methods"
        )
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bytes are of no use in a log, and some are long.
        write!(f, "Sealed(key {}, {} bytes)", self.key, self.bytes.len())
    }
}
