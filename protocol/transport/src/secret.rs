//! A text that must not be printed: what both daemons' configurations hold of join tokens.

use std::fmt;

use serde::Deserialize;

/// A token: what it says is only for whoever compares it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` from being printed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Not for messages.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed_with_what_holds_it() {
        let held = Some(Secret::new("let me in"));
        assert_eq!(format!("{held:?}"), "Some((secret))");
        assert_eq!(held.as_ref().map(Secret::reveal), Some("let me in"));
    }
}
