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

    /// The parameters of `text`, the part of a target behind its `?`.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self {
            pairs: pairs.collect(),
        }
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

/// The text that [`encode`] encodes; `+` is a space. Bytes that are not UTF-8 are replaced.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind
            .get(..2)
            .filter(|it| it.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        let byte = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        let (byte, behind) = match (first, byte) {
            (b'%', Some(byte)) => (byte, &behind[2..]),
            (b'+', _) => (b' ', behind),
            (other, _) => (*other, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_is_parsed_is_the_same_when_it_is_encoded() {
        for text in [
            "",
            "?a=b&c=d",
            "?pretty=",
            "?filter=a%20%3D%3D%20%22b%26c%22",
        ] {
            assert_eq!(Query::parse(text.trim_start_matches('?')).encode(), text);
        }
        assert_eq!(
            Query::parse("pretty&a=b+c%zz").encode(),
            "?pretty=&a=b%20c%25zz"
        );
    }

    #[test]
    fn values_are_percent_encoded() {
        let query = Query::new()
            .with("prefix", "a/b c")
            .with_some("none", None::<u8>);
        assert_eq!(query.encode(), "?prefix=a%2Fb%20c");
        assert!(query.has("prefix") && !query.has("none"));
    }
}
