//! What validation found, and the place it is looking at.

use std::collections::BTreeMap;
use std::fmt;

use crate::pattern;

/// The most mistakes that are listed; further ones are counted.
pub const VALIDATION_ERRORS_MAX: usize = 256;

/// How many different regular expressions the constraints and affinities of a job may hold.
pub const PATTERNS_MAX: usize = 64;

/// One mistake in a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", path, if path.is_empty() { "" } else { ": " })]
pub struct ValidationError {
    /// Where: `group "web" > task "server" > resources > memory`; empty for the job itself.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would be right, where that is known.
    pub hint: Option<String>,
}

/// All mistakes of a job, in the order of the job. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationErrors {
    /// The first [`VALIDATION_ERRORS_MAX`].
    pub errors: Vec<ValidationError>,
    /// How many more there are.
    pub omitted: usize,
}

impl fmt::Display for ValidationErrors {
    /// One line each; hints follow on lines of their own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.errors.len() + self.omitted;
        let plural = if total == 1 { "" } else { "s" };
        write!(f, "{total} error{plural} in the job:")?;
        for error in &self.errors {
            write!(f, "\n  * {error}")?;
            if let Some(hint) = &error.hint {
                write!(f, "\n    hint: {hint}")?;
            }
        }
        if self.omitted > 0 {
            write!(f, "\n  * and {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for ValidationErrors {}

/// Collects mistakes while it is led through a job.
#[derive(Default)]
pub(super) struct Findings {
    path: Vec<String>,
    errors: Vec<ValidationError>,
    omitted: usize,
    /// Those of the job that were compiled, and why they could not be.
    patterns: BTreeMap<String, Option<String>>,
}

impl Findings {
    /// Runs `look` with one more segment in the place.
    pub(super) fn at(&mut self, segment: impl Into<String>, look: impl FnOnce(&mut Self)) {
        self.path.push(segment.into());
        look(self);
        self.path.pop();
    }

    /// A mistake at the present place.
    pub(super) fn refuse(&mut self, message: impl Into<String>) {
        self.push(message.into(), None);
    }

    /// A mistake at the present place, and what would be right.
    pub(super) fn refuse_hint(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        self.push(message.into(), Some(hint.into()));
    }

    /// A mistake one segment below the present place.
    pub(super) fn refuse_at(&mut self, segment: impl Into<String>, message: impl Into<String>) {
        self.at(segment, |findings| findings.refuse(message));
    }

    /// Adds the error of a typed getter, if it is one.
    pub(super) fn parse<T, E: fmt::Display>(
        &mut self,
        segment: impl Into<String>,
        result: Result<T, E>,
    ) -> Option<T> {
        result
            .map_err(|error| self.refuse_at(segment, error.to_string()))
            .ok()
    }

    /// Why this is no regular expression, if it is none. Each costs milliseconds, so a job has at
    /// most [`PATTERNS_MAX`] different ones.
    pub(super) fn wrong_pattern(&mut self, text: &str) -> Option<String> {
        if let Some(known) = self.patterns.get(text) {
            return known.clone();
        }
        if self.patterns.len() >= PATTERNS_MAX {
            let why = format!("a job has at most {PATTERNS_MAX} different regular expressions");
            return Some(why);
        }
        let why = pattern::compile(text).err();
        let why = why.map(|why| format!("{text:?} is no regular expression: {why}"));
        self.patterns.insert(text.to_owned(), why.clone());
        why
    }

    pub(super) fn into_result(self) -> Result<(), ValidationErrors> {
        let Self {
            path: _,
            errors,
            omitted,
            patterns: _,
        } = self;
        if errors.is_empty() {
            Ok(())
        } else {
            Err(ValidationErrors { errors, omitted })
        }
    }

    fn push(&mut self, message: String, hint: Option<String>) {
        if self.errors.len() >= VALIDATION_ERRORS_MAX {
            self.omitted += 1;
            return;
        }
        self.errors.push(ValidationError {
            path: self.path.join(" > "),
            message,
            hint,
        });
    }
}
