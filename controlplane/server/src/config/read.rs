//! From a file's text to its keys. Whatever is wrong is told with the key and its line.
//!
//! ```text
//!   text --hcl_edit--> a tree with places --only plain values, each once--> JSON --serde--> keys
//! ```
//!
//! The way over JSON is strict about types: read directly, a number would do for a text, and
//! `data_dir = 5` would name a directory `${5}`.

use std::ops::Range;

use hcl::edit::expr::Expression;
use hcl::edit::structure::{Body, Structure};
use hcl::edit::{Span, parser};
use serde_json::Value;

use super::file::ConfigFile;

/// The largest configuration file: a hundred times what one with every key needs.
pub(super) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Blocks with a label, which is a key of its own: `keyring "file" { path = ".." }` is the key
/// `keyring.file.path`; `budget "token" { read = 1 }` in `limits` is `limits.budget.token.read`.
const LABELLED: &[&str] = &["keyring", "limits.budget"];

/// What is wrong with a text, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mistake {
    /// From 1.
    pub(super) line: Option<usize>,
    /// What.
    pub(super) message: String,
}

/// A file as it was written, and where its keys are.
#[derive(Debug)]
pub(super) struct Read {
    /// The keys.
    pub(super) file: ConfigFile,
    tree: Body,
    text: String,
}

impl Read {
    /// Reads HCL.
    ///
    /// # Errors
    /// When it is no HCL, holds anything but plain values, a key twice or one that is not known, or
    /// a value of another type.
    pub(super) fn parse(text: &str) -> Result<Self, Mistake> {
        let tree = parser::parse_body(text).map_err(|error| Mistake {
            line: Some(error.location().line()),
            message: format!(
                "column {}: {}: {:?}",
                error.location().column(),
                error.message(),
                error.line().trim()
            ),
        })?;
        plain_body(&tree, &[]).map_err(|(span, message)| Mistake {
            line: span.map(|span| line_of(text, span)),
            message,
        })?;
        let values: Value = hcl::from_str(text).map_err(|error| Mistake {
            line: None,
            message: error.to_string(),
        })?;
        let file = serde_json::from_value(values.clone()).map_err(|error| {
            let message = error.to_string();
            let key = culprit(&values, &message);
            Mistake {
                line: span_of(&tree, &key).map(|span| line_of(text, span)),
                message: format!("{}: {message}", key.join(".")),
            }
        })?;
        Ok(Self {
            file,
            tree,
            text: text.to_owned(),
        })
    }

    /// The line of a key such as `server.retry_join`, if the file has it.
    pub(super) fn line(&self, key: &str) -> Option<usize> {
        let key: Vec<String> = key.split('.').map(str::to_owned).collect();
        Some(line_of(&self.text, span_of(&self.tree, &key)?))
    }
}

type Found = (Option<Range<usize>>, String);

/// Only plain values, and each key once.
fn plain_body(body: &Body, above: &[&str]) -> Result<(), Found> {
    let mut seen: Vec<Vec<&str>> = Vec::new();
    for structure in body {
        let (name, span) = name_of(structure);
        let keys: Vec<&str> = match structure {
            Structure::Attribute(_) => vec![name],
            Structure::Block(block) => {
                let labels = block.labels.iter().map(|label| label.as_str());
                std::iter::once(name).chain(labels).collect()
            }
        };
        let path = || [above, &keys].concat().join(".");
        if seen
            .iter()
            .any(|other| other.starts_with(&keys) || keys.starts_with(other))
        {
            return Err((span, format!("{}: it is given twice", path())));
        }
        match structure {
            Structure::Attribute(attribute) => {
                if let Some(wrong) = not_plain(&attribute.value) {
                    let message = format!(
                        "{}: a configuration has texts, numbers, true and false, and lists and \
                         objects of these, but no expressions",
                        path()
                    );
                    return Err((wrong.span().or(span), message));
                }
            }
            Structure::Block(block) => {
                let labels = usize::from(LABELLED.contains(&&*[above, &[name]].concat().join(".")));
                if block.labels.len() != labels {
                    let labels = if labels == 0 { "no" } else { "one" };
                    let name = [above, &[name]].concat().join(".");
                    return Err((span, format!("{name}: the block has {labels} label")));
                }
                plain_body(&block.body, &[above, &keys].concat())?;
            }
        }
        seen.push(keys);
    }
    Ok(())
}

/// The part of a value that would have to be evaluated, if there is one.
fn not_plain(value: &Expression) -> Option<&Expression> {
    match value {
        Expression::String(_) | Expression::Number(_) | Expression::Bool(_) => None,
        Expression::Array(items) => items.iter().find_map(not_plain),
        Expression::Object(entries) => entries
            .iter()
            .find_map(|(_, value)| not_plain(value.expr())),
        _ => Some(value),
    }
}

fn name_of(structure: &Structure) -> (&str, Option<Range<usize>>) {
    match structure {
        Structure::Attribute(attribute) => (attribute.key.as_str(), attribute.key.span()),
        Structure::Block(block) => (block.ident.as_str(), block.ident.span()),
    }
}

/// The key that a refusal is about: the one without which there is another refusal, or none. What
/// is missing in a block is told of the block.
fn culprit(values: &Value, refusal: &str) -> Vec<String> {
    let is_missing = refusal.starts_with("missing field");
    let mut key: Vec<String> = Vec::new();
    loop {
        let Some(Value::Object(inside)) = key.iter().try_fold(values, |it, name| it.get(name))
        else {
            return key;
        };
        let found = inside.keys().find(|name| {
            let mut lesser = values.clone();
            let above = key
                .iter()
                .try_fold(&mut lesser, |it, name| it.get_mut(name));
            if let Some(Value::Object(inside)) = above {
                inside.remove(*name);
            }
            match serde_json::from_value::<ConfigFile>(lesser) {
                Ok(_) => true,
                Err(_) if is_missing => false,
                Err(error) => error.to_string() != refusal,
            }
        });
        match found {
            Some(name) => key.push(name.clone()),
            None => return key,
        }
    }
}

/// Where a key is, or what of it the file has.
fn span_of(tree: &Body, key: &[String]) -> Option<Range<usize>> {
    let (name, rest) = key.split_first()?;
    let named = || tree.iter().filter(|it| name_of(it).0 == name);
    let inside = named().find_map(|structure| match structure {
        Structure::Block(block) => match (block.labels.first(), rest.split_first()) {
            (Some(label), Some((first, inside))) if label.as_str() == first => {
                let label = name_of(structure).1;
                span_of(&block.body, inside).or(label)
            }
            (Some(_), _) => None,
            (None, _) => span_of(&block.body, rest),
        },
        Structure::Attribute(_) => None,
    });
    inside.or_else(|| named().next().and_then(|structure| name_of(structure).1))
}

fn line_of(text: &str, span: Range<usize>) -> usize {
    let before = text.as_bytes().iter().take(span.start);
    1 + before.filter(|byte| **byte == b'\n').count()
}
