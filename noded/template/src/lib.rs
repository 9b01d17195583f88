//! Templates, as consul-template renders them: Go's template language with the functions of
//! consul-template and most of sprig's.
//!
//! [`render`] takes a [`Template`], the [`Known`] data and [`Limits`], and returns an [`Outcome`]:
//! the text, or the [`Dependency`]s that are not known yet. The caller fetches those and renders
//! again. The crate reads no file, no clock and no environment of its own process.
//!
//! ```text
//!  text --blocks--> balanced --gotmpl--> tree --rewrite--> tree of checked calls --run--> Outcome
//! ```
//!
//! - [`check`] finds syntax errors and unknown or refused functions without any data.
//! - [`functions`] lists the names that a template can call.
//!
//! A template is hostile input. Every call is charged (`pass`): steps, bytes of text, iterations,
//! depth and output have limits, so a template that loops or grows without end is refused. A
//! rendering needs 2 MiB of stack.
//!
//! Only this crate names `gotmpl`. Its parser accepts a missing `end` and stops at a spare one;
//! `blocks` refuses both first.

mod blocks;
mod call;
mod engine;
mod error;
mod functions;
mod known;
mod limits;
mod pass;
mod rewrite;
mod value;

pub use engine::{Outcome, Template, check, render};
pub use error::TemplateError;
pub use functions::functions;
pub use known::{
    Choice, Dependency, Instance, Known, Registration, ServiceQuery, Time, Variable, VariableId,
};
pub use limits::Limits;

/// The marks that begin and end an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiters<'a> {
    /// `{{` unless the job says otherwise.
    pub left: &'a str,
    /// `}}` unless the job says otherwise.
    pub right: &'a str,
}

impl<'a> Delimiters<'a> {
    /// The job's delimiters; an empty or absent text means the default.
    #[must_use]
    pub fn new(left: &'a str, right: Option<&'a str>) -> Self {
        let or = |text: &'a str, default| if text.is_empty() { default } else { text };
        Self {
            left: or(left, "{{"),
            right: or(right.unwrap_or_default(), "}}"),
        }
    }
}

/// The result of a field that a map does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MissingKey {
    /// The zero value: an empty text of a map of texts, `<no value>` of any other map.
    Zero,
    /// The rendering fails.
    Error,
}
