//! The metadata of a node as text.

use std::collections::BTreeMap;

use protocol_model::NodeMetadata;

use super::columns::pairs;
use crate::output::Colour;

/// Three lists of keys and values; an unset key is shown as such.
pub(crate) fn text(metadata: &NodeMetadata, colour: Colour) -> String {
    let NodeMetadata {
        meta,
        dynamic,
        configured,
    } = metadata;
    let word = |value: &Option<String>| match value {
        Some(value) => value.clone(),
        None => "<unset>".to_owned(),
    };
    let dynamic: Vec<(&str, String)> = dynamic
        .iter()
        .map(|(key, value)| (key.as_str(), word(value)))
        .collect();
    format!(
        "{}\n{}\n{}\n{}\n{}\n{}",
        colour.bold("All Meta"),
        list(meta),
        colour.bold("Dynamic Meta"),
        pairs(&dynamic),
        colour.bold("Static Meta"),
        list(configured),
    )
}

fn list(meta: &BTreeMap<String, String>) -> String {
    let all: Vec<(&str, String)> = meta
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    pairs(&all)
}
