//! A text that no log line shows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The text in place of a secret in answers of the API. Written back, it keeps the stored secret.
pub const REDACTED: &str = "redacted";

/// A secret in an object of the API. `Debug` hides it; JSON holds it, so that clients can send it:
/// a server that answers replaces it by [`REDACTED`] first.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this stands for a stored secret.
    pub fn is_redacted(&self) -> bool {
        self.0 == REDACTED
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { REDACTED })
    }
}
