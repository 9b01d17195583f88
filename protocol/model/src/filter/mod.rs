//! Filter expressions (`?filter=`): which items of a list are shown, counted or deleted.
//!
//! ```text
//!   Status == "running" and not (JobID matches "^batch-" or "dc2" in Datacenters)
//!   text --token--> words and signs --parse--> Expression --eval(item's JSON)----> shown or not
//!                                                  |
//!                                                  +--compile--> EvalFilter(evaluation)
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
mod evaluations;
mod parse;
mod token;

use serde::Serialize;

pub use evaluations::EvalFilter;
use parse::Expression;

/// Bytes of an expression: it is part of a URL.
pub const BYTES_MAX: usize = 8 * 1024;

/// Why an expression cannot be used, or not on this list. Always the caller's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
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
        /// The words that may stand there.
        expected: &'static str,
        /// The words that stand there.
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
    /// The item has no JSON: only one with maps whose keys are no texts, which no list has.
    #[error("the item cannot be read: {0}")]
    Item(String),
    /// The field cannot be asked so.
    #[error("{selector:?} is {kind}: {why}")]
    Kind {
        /// The field.
        selector: String,
        /// Its type.
        kind: &'static str,
        /// The reason.
        why: String,
    },
}

/// An expression that can be asked about any item by its JSON.
#[derive(Debug)]
pub struct Filter(Expression);

impl Filter {
    /// Reads an expression of at most [`BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// Where it is none. Whether an item has the fields that it names is known with the item.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > BYTES_MAX {
            return Err(FilterError::TooLong);
        }
        Ok(Self(parse::expression(&token::tokens(text)?)?))
    }

    /// Whether the expression holds for `item`.
    ///
    /// # Errors
    /// Where it asks for a field that such items do not have.
    pub fn keeps(&self, item: &impl Serialize) -> Result<bool, FilterError> {
        let item =
            serde_json::to_value(item).map_err(|error| FilterError::Item(error.to_string()))?;
        eval::holds(&self.0, &item)
    }
}

#[cfg(test)]
mod tests;
