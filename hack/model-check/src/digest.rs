//! What a part of the world went through, as one number. Every part is deterministic, so the same
//! start and the same inputs mean the same part: nothing of it has to be looked at, and orders that
//! differ only in who went first end in equal numbers.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The history of a part, or of a message: of its sender, when it was sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Digest(pub u64);

impl Digest {
    /// Something more happened.
    pub fn note(&mut self, what: impl Hash) {
        *self = self.with(what);
    }

    /// The history with something more.
    #[must_use]
    pub fn with(self, what: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.0, what).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Bytes for whoever asks for random ones: other ones after another history.
    pub fn seed(self) -> [u8; 16] {
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&self.0.to_le_bytes());
        seed[8..].copy_from_slice(&self.with(1).0.to_le_bytes());
        seed
    }
}
