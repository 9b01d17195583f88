//! The token that a client sends, which no log line and no panic shows.

use std::fmt;

use hyper::header::{HeaderValue, InvalidHeaderValue};

/// A token's secret. `Debug` hides it.
#[derive(Clone)]
pub(super) struct Token(String);

impl Token {
    /// The token; `None` where the text is empty.
    pub(super) fn of(text: Option<String>) -> Option<Self> {
        text.filter(|text| !text.is_empty()).map(Self)
    }
}

/// The value of `X-Nomad-Token`, marked as a secret.
impl TryFrom<&Token> for HeaderValue {
    type Error = InvalidHeaderValue;

    fn try_from(token: &Token) -> Result<Self, InvalidHeaderValue> {
        let mut value = Self::from_str(&token.0)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redacted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_shown_neither_by_itself_nor_as_a_header() {
        let token = Token::of(Some("planted-secret".to_owned())).expect("a token");
        let header = HeaderValue::try_from(&token).expect("a header");
        assert_eq!(header, "planted-secret");
        assert!(!format!("{token:?} {header:?}").contains("planted"));
        assert!(Token::of(Some(String::new())).is_none());
        assert!(Token::of(None).is_none());
    }
}
