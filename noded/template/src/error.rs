//! The error of a rendering: a line, the function if it was one, and the reason.

/// A template was refused. `Display`: `line 3: "secret": this cluster has no Vault`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {}{problem}", prefix(function.as_deref()))]
pub struct TemplateError {
    /// The line of the template, from 1.
    pub line: usize,
    /// The function that refused.
    pub function: Option<String>,
    /// The reason.
    pub problem: String,
}

fn prefix(function: Option<&str>) -> String {
    function.map_or_else(String::new, |name| format!("{name:?}: "))
}

impl TemplateError {
    /// An error that belongs to no function.
    pub(crate) fn at(line: usize, problem: impl Into<String>) -> Self {
        Self {
            line,
            function: None,
            problem: problem.into(),
        }
    }

    /// An error of one function.
    pub(crate) fn of(line: usize, function: &str, problem: impl Into<String>) -> Self {
        Self {
            line,
            function: Some(function.to_owned()),
            problem: problem.into(),
        }
    }
}
