//! The tree of a document. HCL and JSON give the same one, and so do all ways to write a block:
//!
//! ```text
//! namespace "dev" { policy = "read" }            namespace:
//! namespace = { dev = { policy = "read" } }        dev:
//! {"namespace": {"dev": {"policy": "read"}}}         policy: "read"
//! ```
//!
//! Nomad reads policies with the first version of HCL, in which an end of line separates nothing,
//! names may be quoted and labels may be bare. Readers of its second version refuse such documents
//! and do not read JSON; the language of policies is small enough for a reader of its own, and one
//! reader for both forms cannot understand them differently.

mod lexer;
mod reader;

use crate::policy::error::{Problems, Span};

/// Deepest nesting of blocks and lists. A policy needs six levels.
const DEPTH_MAX: usize = 16;

/// A name and its value.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) key: String,
    pub(super) span: Span,
    pub(super) value: Value,
}

/// A value; `Other` is a number, a boolean or null, which no rule takes.
#[derive(Debug)]
pub(super) enum Value {
    Text(String, Span),
    List(Vec<Self>, Span),
    Object(Vec<Item>, Span),
    Other(Span),
}

impl Value {
    pub(super) fn span(&self) -> &Span {
        match self {
            Self::Text(_, span) | Self::List(_, span) => span,
            Self::Object(_, span) | Self::Other(span) => span,
        }
    }
}

/// How a document is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Language {
    Hcl,
    Json,
}

/// The items of a document: JSON if its first character is `{`, else HCL. A statement with an
/// error is left out.
pub(super) fn read(text: &str, problems: &mut Problems) -> Vec<Item> {
    let json = text.trim_start_matches(is_space).starts_with('{');
    let language = if json { Language::Json } else { Language::Hcl };
    reader::document(text, language, problems)
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '\u{feff}')
}
