//! The parameters of a request, as written and as what they mean.

use std::sync::Arc;
use std::time::Duration;

use protocol_access::Acl;
use protocol_model::{DEFAULT_NAMESPACE, duration};

use super::ask::Ask;
use super::error::HttpError;

/// The parameters, in the order of the request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

/// The namespaces of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Namespaces<'a> {
    asked: &'a str,
    ask: &'a Ask,
}

impl<'a> Namespaces<'a> {
    /// The namespace `asked`, or all (`*`), as far as the caller may see them.
    pub(super) fn new(asked: &'a str, ask: &'a Ask) -> Self {
        Self { asked, ask }
    }

    /// The one that the list is asked for; `None` for all.
    pub(super) fn one(self) -> Option<&'a str> {
        (self.asked != "*").then_some(self.asked)
    }

    /// The caller's rights.
    pub(super) fn acl(self) -> Arc<Acl> {
        self.ask.acl()
    }

    /// Whether the list shows this namespace.
    pub(super) fn contains(self, namespace: &str) -> bool {
        (self.asked == "*" || self.asked == namespace) && self.ask.shows(namespace)
    }
}

impl Query {
    /// Reads the text behind the `?`.
    ///
    /// # Errors
    /// Where it is no percent-encoded UTF-8.
    pub(super) fn parse(text: &str) -> Result<Self, HttpError> {
        let mut pairs = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(key, Plus::IsSpace)?, decode(value, Plus::IsSpace)?));
        }
        Ok(Self { pairs })
    }

    /// The first value of a parameter.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that is given and not empty.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    /// Whether a switch is on that works by being there, such as `?stale`.
    pub(super) fn switch(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| !matches!(value, "0" | "false"))
    }

    /// A parameter that is true or false; false where it is absent.
    ///
    /// # Errors
    /// Where it is neither.
    pub(super) fn flag(&self, key: &str) -> Result<bool, HttpError> {
        match self.get(key) {
            None | Some("" | "0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
            Some(other) => Err(HttpError::bad_request(format!(
                "Failed to parse value of \"{key}\" ({other:?}) as a bool"
            ))),
        }
    }

    /// Adds `?stale`, which a body can ask for, too. A `?stale` of the request's own counts first.
    pub(super) fn allow_stale(&mut self) {
        self.pairs.push(("stale".to_owned(), String::new()));
    }

    /// A whole number.
    ///
    /// # Errors
    /// Where it is none.
    pub(super) fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, HttpError> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            HttpError::bad_request(format!("Invalid {key}: {text:?} is not a number in range"))
        })
    }

    /// A duration as Go writes it.
    ///
    /// # Errors
    /// Where it is none.
    pub(super) fn duration(&self, key: &str) -> Result<Option<Duration>, HttpError> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        duration::parse_go(text)
            .map(Some)
            .map_err(|error| HttpError::bad_request(format!("Invalid {key} time: {error}")))
    }

    /// The namespace of one object.
    pub(super) fn namespace(&self) -> &str {
        self.text("namespace").unwrap_or(DEFAULT_NAMESPACE)
    }
}

/// What `+` means: a space in a query, itself in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plus {
    IsSpace,
    IsPlus,
}

/// Undoes percent-encoding.
///
/// # Errors
/// Where an escape is broken or the result is no UTF-8.
pub(super) fn decode(text: &str, plus: Plus) -> Result<String, HttpError> {
    let broken = || HttpError::bad_request(format!("invalid URL escape in {text:?}"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit().ok_or_else(broken)?, digit().ok_or_else(broken)?);
                bytes.push(u8::try_from(high * 16 + low).map_err(|_| broken())?);
            }
            b'+' if plus == Plus::IsSpace => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_found_by_name() {
        let query = Query::parse("prefix=a%2Fb+c&stale&all=true&wait=2s").expect("it is a query");
        assert_eq!(query.get("prefix"), Some("a/b c"));
        assert!(query.switch("stale") && !query.switch("pretty"));
        assert_eq!(query.flag("all"), Ok(true));
        assert_eq!(query.duration("wait"), Ok(Some(Duration::from_secs(2))));
        assert_eq!(query.namespace(), "default");
    }

    #[test]
    fn what_cannot_be_read_is_a_bad_request() {
        Query::parse("a=%zz").expect_err("no escape");
        Query::parse("a=%ff").expect_err("no UTF-8");
        let query = Query::parse("all=perhaps&index=-1").expect("it is a query");
        query.flag("all").expect_err("no flag");
        query.number::<u64>("index").expect_err("negative");
    }
}
