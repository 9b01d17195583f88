//! Where an error is: a part that is read late is read from its own beginning, and its errors are
//! counted from there.

use std::cell::Cell;

use serde::de::Error;
use serde_json::value::RawValue;

/// The document that is read, as seen from one level of it.
#[derive(Clone, Copy)]
pub(super) struct Document<'r> {
    pub(super) bytes: &'r [u8],
    /// Whether the error that is on its way out has its place in the document already.
    pub(super) located: &'r Cell<bool>,
    /// Further levels that may be entered.
    pub(super) depth_left: u8,
}

impl Document<'_> {
    /// The document one level further in.
    pub(super) fn deeper<E: Error>(self) -> Result<Self, E> {
        let depth_left = self.depth_left.checked_sub(1);
        let depth_left = depth_left.ok_or_else(|| E::custom("recursion limit exceeded"))?;
        Ok(Self { depth_left, ..self })
    }

    /// An error of `part`, which borrows from the document, with its place in the document.
    pub(super) fn placed<E: Error>(self, part: &RawValue, error: &serde_json::Error) -> E {
        let words = error.to_string();
        if error.line() == 0 || self.located.replace(true) {
            return E::custom(words);
        }
        let part = part.get().as_bytes();
        let begin = (part.as_ptr() as usize).saturating_sub(self.bytes.as_ptr() as usize);
        let inside = index(part, error.line(), error.column());
        let (line, column) = place(self.bytes, begin + inside);
        // The library writes the place behind the words, and reads it there.
        let own = format!(" at line {} column {}", error.line(), error.column());
        let words = words.strip_suffix(&own).unwrap_or(&words);
        E::custom(format_args!("{words} at line {line} column {column}"))
    }
}

/// The byte that a line (from 1) and a column speak of.
fn index(text: &[u8], line: usize, column: usize) -> usize {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let begin: usize = lines.take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (begin + column).min(text.len())
}

/// The line (from 1) and the column of a byte.
fn place(text: &[u8], index: usize) -> (usize, usize) {
    let before = &text[..index.min(text.len())];
    let line_begin = before.iter().rposition(|byte| *byte == b'\n');
    let line_begin = line_begin.map_or(0, |position| position + 1);
    let breaks = before.iter().filter(|byte| **byte == b'\n').count();
    (breaks + 1, before.len() - line_begin)
}
