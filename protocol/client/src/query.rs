//! Query parameters, percent-encoded.

use std::fmt::Write as _;

/// The parameters of one call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// No parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more parameter.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers pass numbers and texts as they are"
    )]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.pairs.push((key.to_owned(), value.to_string()));
        self
    }

    /// One more parameter where there is a value.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Whether `key` was given already.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.pairs.iter().any(|(known, _)| known == key)
    }

    /// Whether `key` was given with this value.
    pub(crate) fn holds(&self, key: &str, value: &str) -> bool {
        self.pairs
            .iter()
            .any(|(known, given)| known == key && given == value)
    }

    /// `?a=b&c=d`, or nothing.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        for (offset, (key, value)) in self.pairs.iter().enumerate() {
            text.push(if offset == 0 { '?' } else { '&' });
            text.push_str(&encode(key));
            text.push('=');
            text.push_str(&encode(value));
        }
        text
    }
}

/// Percent-encodes everything but unreserved characters (RFC 3986, section 2.3), so that a job id
/// with a slash stays one path segment.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_percent_encoded() {
        let query = Query::new()
            .with("prefix", "a/b c")
            .with_some("none", None::<u8>);
        assert_eq!(query.encode(), "?prefix=a%2Fb%20c");
        assert!(query.has("prefix") && !query.has("none"));
    }
}
