//! Reads JSON as Go's programs do, which all clients of this API were written for: the keys of
//! structures match in any case, at every depth; the keys of maps stay as they are.
//!
//! ```text
//!   {"job": {"id": "web", "Meta": {"owner": "x"}}}      job -> Job, id -> ID; owner stays
//!   {"ID": "a", "id": "b"}                              "a": the exact spelling wins, in any order
//!   {"iD": "a", "id": "b"}                              "b": of other spellings the last one wins
//!   {"ID": "a", "ID": "b"}                              refused: duplicate field
//! ```
//!
//! Input: a document and a type. Output: a value, or an error with its line and column.
//!
//! - [`any_case`]: wraps a deserializer and learns from `deserialize_struct` which fields there
//!   are;
//! - [`fields`]: matches the keys of one object with these fields;
//! - [`place`]: where in the whole document an error in a part of it is.
//!
//! A type must tell its fields: `#[serde(flatten)]`, `untagged` and internally tagged enums ask for
//! a map instead, and what they hold is then matched exactly.

mod any_case;
mod fields;
mod place;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use serde::Deserialize;

use any_case::AnyCase;
use place::Document;

/// Levels of objects and lists. As many as the JSON library allows, whose own count begins anew
/// with a part that is read late.
const DEPTH_MAX: u8 = 127;

/// Reads a document. A type without structures reads as with `serde_json`.
///
/// # Errors
/// When the bytes are not JSON or not what the type expects, with line and column.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let located = Cell::new(false);
    let document = Document {
        bytes,
        located: &located,
        depth_left: DEPTH_MAX,
    };
    let value = T::deserialize(AnyCase::new(&mut reader, document))?;
    reader.end()?;
    Ok(value)
}

/// As [`from_slice`].
///
/// # Errors
/// As [`from_slice`].
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_json::Error> {
    from_slice(text.as_bytes())
}
