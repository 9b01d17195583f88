//! `${...}` in job files: replaced by what the node, the job and the allocation say.
//!
//! A name that nobody knows stays as it was written (Nomad's rule), so that a shell inside the task
//! may still resolve it.

use protocol_model::Node;
use serde_json::Value;

/// What `${name}` is where the node says it: everything that may be named, beside the environment
/// itself.
pub(crate) fn node_value(node: &Node, region: &str, name: &str) -> Option<String> {
    Some(match name {
        "node.unique.id" => node.id.to_string(),
        "node.datacenter" => node.datacenter.clone(),
        "node.unique.name" => node.name.clone(),
        "node.class" => node.node_class.clone(),
        "node.pool" => node.node_pool.clone(),
        "node.region" => region.to_owned(),
        name => {
            let attribute = name.strip_prefix("attr.");
            let attribute = attribute.and_then(|name| node.attributes.get(name));
            let meta = name.strip_prefix("meta.");
            let meta = meta.and_then(|name| node.meta.get(name));
            return attribute.or(meta).cloned();
        }
    })
}

/// Replaces every `${name}` that `lookup` knows.
pub(crate) fn replace(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        result.push_str(before);
        let Some(end) = reference.find('}') else {
            rest = reference;
            break;
        };
        let name = reference[2..end].trim();
        match lookup(name) {
            Some(value) => result.push_str(&value),
            None => result.push_str(&reference[..=end]),
        }
        rest = &reference[end + 1..];
    }
    result.push_str(rest);
    result
}

/// Replaces in every text of a driver's configuration, keys included.
pub(crate) fn replace_json(value: &Value, lookup: &dyn Fn(&str) -> Option<String>) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(replace(text, lookup)),
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| replace_json(item, lookup))
                .collect(),
        ),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, value)| (replace(key, lookup), replace_json(value, lookup)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "attr.kernel.name").then(|| "linux".to_owned())
    }

    #[test]
    fn known_names_are_replaced_and_unknown_ones_stay() {
        for (text, expected) in [
            ("", ""),
            ("plain $HOME", "plain $HOME"),
            ("on ${attr.kernel.name}!", "on linux!"),
            ("${ attr.kernel.name }${attr.kernel.name}", "linuxlinux"),
            ("${attr.other}", "${attr.other}"),
            ("é ${unclosed", "é ${unclosed"),
            ("${}", "${}"),
        ] {
            assert_eq!(replace(text, &lookup), expected);
        }
    }

    #[test]
    fn every_text_of_a_configuration_is_resolved() {
        let config = serde_json::json!({
            "command": "/bin/${attr.kernel.name}", "args": ["${attr.kernel.name}", 1, null],
            "nested": [{ "${attr.kernel.name}": true }],
        });
        let expected = serde_json::json!({
            "command": "/bin/linux", "args": ["linux", 1, null], "nested": [{ "linux": true }],
        });
        assert_eq!(replace_json(&config, &lookup), expected);
    }

    proptest::proptest! {
        #[test]
        fn text_without_known_names_is_never_changed(text in "[${}a-z. é]{0,40}") {
            proptest::prop_assert_eq!(replace(&text, &|_| None), text);
        }
    }
}
