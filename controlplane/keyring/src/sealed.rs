//! Sealed values: bytes that only the holder of a root key can read, and only in their place.

use aws_lc_rs::aead::NONCE_LEN;
use aws_lc_rs::rand;
use controlplane_state::{SEALED_BYTES_MAX, Sealed, VARIABLE_SEALED_BYTES_MAX};

/// A nonce of AES-256-GCM. Two values under one key must never share one, so the proposer of a
/// command takes a [`fresh_nonce`] for each.
pub type Nonce = [u8; NONCE_LEN];

/// The length of a tag of AES-256-GCM.
const TAG_BYTES: usize = 16;
/// The largest value that is sealed, bytes: with its tag it is the state's largest sealed value,
/// that of a variable.
pub const SEAL_BYTES_MAX: usize = VARIABLE_SEALED_BYTES_MAX - TAG_BYTES;

/// A new random nonce.
///
/// # Panics
/// When the operating system has no random bytes, which Linux excludes after boot.
pub fn fresh_nonce() -> Nonce {
    let mut nonce = Nonce::default();
    rand::fill(&mut nonce).expect("the operating system gives random bytes");
    nonce
}

/// Why bytes are no sealed value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SealedError {
    /// Shorter than an empty value.
    #[error("{0} bytes are too few for a sealed value")]
    TooShort(usize),
    /// Longer than the largest value.
    #[error("{0} bytes are too many for a sealed value")]
    TooLong(usize),
    /// A later release wrote it.
    #[error("format {0} of sealed values is not known to this release")]
    Format(u8),
}

/// The first byte of an encoded value.
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 1 + size_of::<u32>() + NONCE_LEN;

/// A sealed value in one piece, for a value that travels outside of the state. Format 1:
/// `1 | root key (4, the highest byte first) | nonce (12) | ciphertext and tag`.
pub fn sealed_to_bytes(sealed: &Sealed) -> Vec<u8> {
    let Sealed { key, nonce, bytes } = sealed;
    let mut all = Vec::with_capacity(HEAD_BYTES + bytes.len());
    all.push(FORMAT);
    all.extend_from_slice(&key.to_be_bytes());
    all.extend_from_slice(nonce);
    all.extend_from_slice(bytes);
    all
}

/// Reads what [`sealed_to_bytes`] wrote.
///
/// # Errors
/// When the length cannot be right, or the format is unknown.
pub fn sealed_from_bytes(all: &[u8]) -> Result<Sealed, SealedError> {
    if all.len() < HEAD_BYTES + TAG_BYTES {
        return Err(SealedError::TooShort(all.len()));
    }
    if all.len() > HEAD_BYTES + SEALED_BYTES_MAX {
        return Err(SealedError::TooLong(all.len()));
    }
    if all[0] != FORMAT {
        return Err(SealedError::Format(all[0]));
    }
    let (head, bytes) = all.split_at(HEAD_BYTES);
    let (key, nonce) = head[1..].split_at(size_of::<u32>());
    let too_short = SealedError::TooShort(all.len());
    Ok(Sealed {
        key: u32::from_be_bytes(key.try_into().map_err(|_| too_short)?),
        nonce: nonce.try_into().map_err(|_| too_short)?,
        bytes: bytes.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_survives_its_bytes() {
        let sealed = Sealed {
            key: 7,
            nonce: fresh_nonce(),
            bytes: vec![9; 20],
        };
        assert_eq!(sealed_from_bytes(&sealed_to_bytes(&sealed)), Ok(sealed));
    }

    #[test]
    fn other_lengths_and_formats_are_refused() {
        let short = vec![1; HEAD_BYTES + 15];
        assert_eq!(sealed_from_bytes(&short), Err(SealedError::TooShort(32)));
        let long = vec![1; HEAD_BYTES + SEALED_BYTES_MAX + 1];
        assert_eq!(
            sealed_from_bytes(&long),
            Err(SealedError::TooLong(long.len()))
        );
        let later = vec![2; HEAD_BYTES + 16];
        assert_eq!(sealed_from_bytes(&later), Err(SealedError::Format(2)));
    }
}
