//! Key-encryption keys: they wrap root keys, and are in no log, snapshot, answer or log line.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

/// The id of a KEK: the first 8 bytes of its SHA-256, shown as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KekId([u8; Self::BYTES]);

impl KekId {
    /// The length of an id.
    pub const BYTES: usize = 8;

    /// The id in 8 bytes; `None` where the length is another.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its 8 bytes.
    pub fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    fn of(kek: &[u8; Kek::BYTES]) -> Self {
        let mut id = [0; Self::BYTES];
        let sha256 = digest(&SHA256, kek);
        id.copy_from_slice(&sha256.as_ref()[..Self::BYTES]);
        Self(id)
    }
}

impl From<[u8; Self::BYTES]> for KekId {
    fn from(id: [u8; Self::BYTES]) -> Self {
        Self(id)
    }
}

impl fmt::Display for KekId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KekId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KekId({self})")
    }
}

/// A text that is no id of a KEK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a KEK id has 16 hexadecimal digits in lower case")]
pub struct KekIdError;

impl FromStr for KekId {
    type Err = KekIdError;

    fn from_str(text: &str) -> Result<Self, KekIdError> {
        let mut id = [0; Self::BYTES];
        read_hex(text, &mut id).ok_or(KekIdError)?;
        Ok(Self(id))
    }
}

/// A key-encryption key of 32 bytes. It is overwritten when it is dropped.
#[derive(Clone)]
#[expect(
    missing_debug_implementations,
    reason = "a derived one would print the key"
)]
pub struct Kek {
    bytes: Zeroizing<[u8; Self::BYTES]>,
    id: KekId,
}

impl Kek {
    /// The length of a KEK.
    pub const BYTES: usize = 32;

    /// A new one, from the operating system's random source.
    ///
    /// # Panics
    /// When the operating system has no random bytes, which Linux excludes after boot.
    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new([0; Self::BYTES]);
        rand::fill(&mut *bytes).expect("the operating system gives random bytes");
        Self::of(bytes)
    }

    /// The KEK in 32 bytes; `None` where the length is another.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        Some(Self::of(Zeroizing::new(*bytes)))
    }

    pub(crate) fn of(bytes: Zeroizing<[u8; Self::BYTES]>) -> Self {
        let id = KekId::of(&bytes);
        Self { bytes, id }
    }

    /// Its id, which is public.
    pub fn id(&self) -> KekId {
        self.id
    }

    /// The key itself: for the file, and for another server of this cluster.
    pub fn reveal(&self) -> &[u8; Self::BYTES] {
        &self.bytes
    }
}

/// Fills `into` from exactly as many lower-case hexadecimal digits.
pub(crate) fn read_hex(text: &str, into: &mut [u8]) -> Option<()> {
    let text = text.as_bytes();
    if text.len() != into.len() * 2 {
        return None;
    }
    for (pair, byte) in text.chunks_exact(2).zip(into) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}

fn digit(text: u8) -> Option<u8> {
    match text {
        b'0'..=b'9' => Some(text - b'0'),
        b'a'..=b'f' => Some(text - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_beginning_of_the_sha256() {
        let kek = Kek::from_slice(&[0; 32]).expect("32 bytes");
        // SHA-256 of 32 zero bytes begins so.
        assert_eq!(kek.id().to_string(), "66687aadf862bd77");
        assert_eq!("66687aadf862bd77".parse(), Ok(kek.id()));
    }

    #[test]
    fn texts_that_are_no_id_are_refused() {
        for text in [
            "",
            "66",
            "66687AADF862BD77",
            "66687aadf862bd7g",
            "66687aadf862bd7777",
        ] {
            assert_eq!(text.parse::<KekId>(), Err(KekIdError), "{text}");
        }
    }

    #[test]
    fn another_length_is_no_kek_and_two_new_ones_differ() {
        assert!(Kek::from_slice(&[0; 31]).is_none());
        assert!(Kek::from_slice(&[0; 33]).is_none());
        assert_ne!(Kek::generate().id(), Kek::generate().id());
    }
}
