//! `?filter=`: which items of a list are shown, by an expression on their JSON.
//!
//! ```text
//!   Status == "running" and not (JobID matches "^batch-" or "dc2" in Datacenters)
//!   text --token--> words and signs --parse--> Expression --eval(item)--> shown or not
//! ```
//!
//! ```text
//!   expression = and {"or" and}
//!   and        = not {"and" not}
//!   not        = "not" not | "(" expression ")" | match
//!   match      = selector "==" value       | selector "!=" value
//!              | selector "contains" value | selector "not contains" value
//!              | value "in" selector       | value "not in" selector
//!              | selector "matches" value  | selector "not matches" value
//!              | selector "is empty"       | selector "is not empty"
//!   selector   = Name{.Name}{["any name"]} | "/Name/any name"
//!   value      = "text" | `text` | word | number
//! ```
//!
//! The language is the one that Nomad's users write. Everything here is a function of its
//! arguments: an expression in, a verdict out.

mod eval;
mod parse;
mod token;

use serde::Serialize;

use super::error::HttpError;
use super::query::Query;
use parse::Expression;

/// Bytes of an expression: it is part of a URL.
const BYTES_MAX: usize = 8 * 1024;

/// Why an expression cannot be used, or not on this list. Always the caller's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum FilterError {
    /// It is too long.
    #[error("an expression has at most {BYTES_MAX} bytes")]
    TooLong,
    /// A quote is never closed.
    #[error("the text that begins at byte {0} is never closed")]
    Unclosed(usize),
    /// No sign of the language.
    #[error("{0:?} at byte {1} means nothing here")]
    Sign(char, usize),
    /// Another word was expected.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        expected: &'static str,
        found: String,
    },
    /// Parentheses and negations in each other.
    #[error("the expression is nested too deeply")]
    TooDeep,
    /// `any` and `all` are part of the language of newer servers.
    #[error("the quantifier {0:?} is not part of this release")]
    Quantifier(String),
    /// No regular expression, or one that is too large.
    #[error("not a regular expression: {0}")]
    Regex(String),
    /// The items of this list have no such field.
    #[error("selector {0:?} is not valid: the items of this list have no such field")]
    Selector(String),
    /// The field cannot be asked so.
    #[error("{selector:?} is {kind}: {why}")]
    Kind {
        selector: String,
        kind: &'static str,
        why: String,
    },
}

/// An expression that can be asked about items.
#[derive(Debug)]
pub(super) struct Filter(Expression);

impl Filter {
    /// The filter that a request asks for; `None` where it asks for none.
    ///
    /// # Errors
    /// 400 where the expression makes no sense.
    pub(super) fn of(query: &Query) -> Result<Option<Self>, HttpError> {
        Ok(query.text("filter").map(Self::parse).transpose()?)
    }

    fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > BYTES_MAX {
            return Err(FilterError::TooLong);
        }
        Ok(Self(parse::expression(&token::tokens(text)?)?))
    }

    /// Whether `item` is shown.
    ///
    /// # Errors
    /// 400 where the expression asks for what such items do not have.
    pub(super) fn keeps(&self, item: &impl Serialize) -> Result<bool, HttpError> {
        // Fails only for maps whose keys are no texts, and no item has one.
        let item = serde_json::to_value(item)
            .map_err(|error| HttpError::internal(format!("the item cannot be read: {error}")))?;
        Ok(eval::holds(&self.0, &item)?)
    }
}

impl From<FilterError> for HttpError {
    fn from(error: FilterError) -> Self {
        Self::bad_request(format!("failed to read filter expression: {error}"))
    }
}

#[cfg(test)]
mod tests;
