//! Errors of a document, each with its place.

use std::fmt;
use std::ops::Range;

/// How many errors of one document are kept; further ones are counted.
pub const ERRORS_MAX: usize = 50;

/// Longest part of a document that an error quotes, in characters.
const QUOTED_CHARS_MAX: usize = 64;

/// One error of a policy's document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// Contains the text that Nomad has for this error.
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            message,
        } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

/// All errors of a document, in the order of its text; at least one. `Display` prints one a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyErrors {
    list: Vec<PolicyError>,
    omitted: usize,
}

impl PolicyErrors {
    /// The first [`ERRORS_MAX`] errors.
    pub fn list(&self) -> &[PolicyError] {
        &self.list
    }

    /// The number of errors that are not in the list.
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.list.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        if self.omitted > 0 {
            write!(f, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}

/// A byte range of the document.
pub(super) type Span = Range<usize>;

/// Errors while they are collected.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Vec<(usize, String)>,
    omitted: usize,
}

impl Problems {
    pub(super) fn report(&mut self, span: &Span, message: String) {
        if self.found.len() < ERRORS_MAX {
            self.found.push((span.start, message));
        } else {
            self.omitted += 1;
        }
    }

    /// An error of grammar or of types, as Nomad's parser introduces them.
    pub(super) fn failed(&mut self, span: &Span, message: impl fmt::Display) {
        self.report(span, format!("Failed to parse ACL Policy: {message}"));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// `done`, if nothing was found.
    pub(super) fn or<T>(self, text: &str, done: T) -> Result<T, PolicyErrors> {
        let Self { mut found, omitted } = self;
        if found.is_empty() {
            return Ok(done);
        }
        found.sort_by_key(|(at, _)| *at);
        let located = found.into_iter().map(|(at, message)| {
            let before = &text[..text.floor_char_boundary(at)];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            PolicyError {
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message,
            }
        });
        Err(PolicyErrors {
            list: located.collect(),
            omitted,
        })
    }
}

/// A part of the document as errors quote it: short, and without control characters.
pub(super) fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    let more = if shown.len() < text.len() { ".." } else { "" };
    format!("{}{more}", shown.replace(char::is_control, "\u{fffd}"))
}
