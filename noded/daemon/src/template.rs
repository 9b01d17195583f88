//! Templates with inline data or a source file: plain text with `{{ env "NAME" }}`. Every other
//! action needs sources that this release does not have, and fails by name rather than silently.

use std::collections::BTreeMap;

use noded_core::env::file::{self, LineError};

/// A rendered template is a configuration file; beyond this it is something else.
pub const TEMPLATE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why a template was not rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// An action without an end.
    #[error("line {line}: {open:?} without its end {close:?}")]
    Unclosed {
        /// Where it begins.
        line: usize,
        /// The left delimiter.
        open: String,
        /// The right delimiter.
        close: String,
    },
    /// An action that is not `env "NAME"`.
    #[error("line {line}: {action:?} is not supported; only `env \"NAME\"` and comments are")]
    Unsupported {
        /// Where.
        line: usize,
        /// The action.
        action: String,
    },
    /// It is too large.
    #[error("the result is larger than {TEMPLATE_BYTES_MAX} bytes")]
    TooLarge,
    /// A line of an environment file.
    #[error("line {line} of the environment")]
    Environment {
        /// Which line of the result.
        line: usize,
        /// Why it was refused.
        source: LineError,
    },
}

/// What begins and ends an action.
#[derive(Debug, Clone, Copy)]
pub struct Delimiters<'a> {
    /// `{{` unless the job says otherwise.
    pub left: &'a str,
    /// `}}` unless the job says otherwise.
    pub right: &'a str,
}

impl<'a> Delimiters<'a> {
    /// The job's delimiters, an empty text meaning the usual ones.
    pub fn new(left: &'a str, right: Option<&'a str>) -> Self {
        let or = |text: &'a str, usual| if text.is_empty() { usual } else { text };
        Self {
            left: or(left, "{{"),
            right: or(right.unwrap_or_default(), "}}"),
        }
    }
}

/// Renders a template. A variable that is not set gives an empty text, as consul-template has it.
///
/// # Errors
/// An action is not closed or not supported, or the result is too large.
pub fn render(
    text: &str,
    delimiters: Delimiters<'_>,
    environment: &BTreeMap<String, String>,
) -> Result<String, TemplateError> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(delimiters.left) {
        let at = text.len() - rest.len() + start;
        // Counted only for a mistake: a template may have very many actions.
        let line = || text[..at].matches('\n').count() + 1;
        let (before, after) = (&rest[..start], &rest[start + delimiters.left.len()..]);
        let end = after
            .find(delimiters.right)
            .ok_or_else(|| TemplateError::Unclosed {
                line: line(),
                open: delimiters.left.to_owned(),
                close: delimiters.right.to_owned(),
            })?;
        let (action, trim) = trimmed(&after[..end]);
        rest = &after[end + delimiters.right.len()..];
        result.push_str(if trim.before {
            before.trim_end()
        } else {
            before
        });
        result.push_str(&evaluate(action, environment).ok_or_else(|| {
            TemplateError::Unsupported {
                line: line(),
                action: action.to_owned(),
            }
        })?);
        if trim.after {
            rest = rest.trim_start();
        }
        if result.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError::TooLarge);
        }
    }
    result.push_str(rest);
    if result.len() > TEMPLATE_BYTES_MAX {
        return Err(TemplateError::TooLarge);
    }
    Ok(result)
}

/// On which sides an action eats white space: `{{- ... -}}`.
#[derive(Debug, Clone, Copy)]
struct Trim {
    before: bool,
    after: bool,
}

fn trimmed(action: &str) -> (&str, Trim) {
    let before = action
        .strip_prefix('-')
        .filter(|rest| rest.starts_with(char::is_whitespace));
    let rest = before.unwrap_or(action);
    let after = rest
        .strip_suffix('-')
        .filter(|rest| rest.ends_with(char::is_whitespace));
    let trim = Trim {
        before: before.is_some(),
        after: after.is_some(),
    };
    (after.unwrap_or(rest).trim(), trim)
}

fn evaluate(action: &str, environment: &BTreeMap<String, String>) -> Option<String> {
    if action.starts_with("/*") && action.ends_with("*/") {
        return Some(String::new());
    }
    let argument = action.strip_prefix("env")?;
    let argument = argument
        .starts_with(char::is_whitespace)
        .then(|| argument.trim())?;
    let name = ['"', '`']
        .into_iter()
        .find_map(|quote| argument.strip_prefix(quote)?.strip_suffix(quote))?;
    if name.contains(['"', '`', '\\']) {
        return None;
    }
    Some(environment.get(name).cloned().unwrap_or_default())
}

/// The variables of a rendered environment file.
///
/// # Errors
/// A line is no assignment, comment or blank line.
pub fn environment_of(text: &str) -> Result<BTreeMap<String, String>, TemplateError> {
    file::parse(text).map_err(|(line, source)| TemplateError::Environment { line, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> Result<String, TemplateError> {
        let environment = BTreeMap::from([("NOMAD_ALLOC_ID".to_owned(), "abc".to_owned())]);
        render(text, Delimiters::new("", None), &environment)
    }

    #[test]
    fn text_passes_and_variables_are_put_in() {
        for (text, expected) in [
            ("", ""),
            ("#!/bin/sh\necho $X ${Y}\n", "#!/bin/sh\necho $X ${Y}\n"),
            ("id {{ env \"NOMAD_ALLOC_ID\" }}.", "id abc."),
            ("{{env `NOMAD_ALLOC_ID`}}", "abc"),
            ("a \n {{- env \"NOMAD_ALLOC_ID\" -}} \n b", "aabcb"),
            ("[{{ env \"UNSET\" }}]", "[]"),
            ("a{{/* nothing */}}b", "ab"),
        ] {
            assert_eq!(rendered(text).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_line() {
        let error = rendered("one\n{{ key \"a\" }}").unwrap_err();
        assert!(
            error.to_string().starts_with("line 2: \"key \\\"a\\\"\""),
            "{error}"
        );
        for text in [
            "{{ env }}",
            "{{ env \"A\" | toLower }}",
            "{{ range services }}",
            "{{ envX \"A\" }}",
        ] {
            assert!(
                matches!(rendered(text), Err(TemplateError::Unsupported { .. })),
                "{text}"
            );
        }
        assert!(matches!(
            rendered("a {{ b"),
            Err(TemplateError::Unclosed { line: 1, .. })
        ));
    }

    #[test]
    fn other_delimiters_leave_braces_alone() {
        let delimiters = Delimiters::new("[[", Some("]]"));
        let environment = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let result = render("{{ x }} [[ env \"A\" ]]", delimiters, &environment);
        assert_eq!(result.as_deref(), Ok("{{ x }} 1"));
    }
}
