//! `${...}` in job files: replaced by what the node, the job and the allocation say.
//!
//! A name that nobody knows stays as it was written (Nomad's rule), so that a shell inside the task
//! may still resolve it.

use protocol_model::{Node, ReferenceForm, replace_references};
use serde_json::{Map, Value};

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

/// Everything that [`node_value`] has a value for.
pub(crate) fn node_names(node: &Node) -> impl Iterator<Item = String> {
    let own = [
        "node.unique.id",
        "node.datacenter",
        "node.unique.name",
        "node.class",
        "node.pool",
        "node.region",
    ];
    let attributes = node.attributes.keys().map(|name| format!("attr.{name}"));
    let meta = node.meta.keys().map(|name| format!("meta.{name}"));
    own.map(str::to_owned)
        .into_iter()
        .chain(attributes)
        .chain(meta)
}

/// Finds the value of a name, written with dots.
pub type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Replaces every `${name}` that `lookup` knows. In most places Nomad replaces this form only.
pub fn replace(text: &str, lookup: &Lookup<'_>) -> String {
    replace_references(text, |reference| match reference.form {
        ReferenceForm::Plain => lookup(&reference.name),
        ReferenceForm::Spaced | ReferenceForm::Indexed => None,
    })
}

/// Replaces in every text of a driver's configuration, keys included. Nomad evaluates it as HCL2:
/// an index means the same as a dot, and `node` leads to the node's attributes, too.
pub fn replace_config(config: &Map<String, Value>, lookup: &Lookup<'_>) -> Map<String, Value> {
    let fields = config.iter();
    fields
        .map(|(key, value)| (replace_hcl(key, lookup), replace_json(value, lookup)))
        .collect()
}

fn replace_hcl(text: &str, lookup: &Lookup<'_>) -> String {
    replace_references(text, |reference| {
        let name = &*reference.name;
        let below_node = name.strip_prefix("node.");
        let of_node = below_node.filter(|it| it.starts_with("attr.") || it.starts_with("meta."));
        lookup(of_node.unwrap_or(name))
    })
}

fn replace_json(value: &Value, lookup: &Lookup<'_>) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(replace_hcl(text, lookup)),
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| replace_json(item, lookup))
                .collect(),
        ),
        Value::Object(fields) => Value::Object(replace_config(fields, lookup)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "attr.kernel.name").then(|| "linux".to_owned())
    }

    /// Each text with what it is outside of a configuration and within one.
    #[test]
    fn known_names_are_replaced_and_unknown_ones_stay() {
        for (text, outside, within) in [
            ("", "", ""),
            ("plain $HOME", "plain $HOME", "plain $HOME"),
            ("on ${attr.kernel.name}!", "on linux!", "on linux!"),
            ("${a ${attr.kernel.name}", "${a linux", "${a linux"),
            ("${ attr.kernel.name }", "${ attr.kernel.name }", "linux"),
            (
                "${attr[\"kernel.name\"]}",
                "${attr[\"kernel.name\"]}",
                "linux",
            ),
            (
                "${attr.kernel[\"name\"]}",
                "${attr.kernel[\"name\"]}",
                "linux",
            ),
            (
                "${node.attr.kernel.name}",
                "${node.attr.kernel.name}",
                "linux",
            ),
            ("${attr.other}", "${attr.other}", "${attr.other}"),
            ("${meta[\"x\"]}", "${meta[\"x\"]}", "${meta[\"x\"]}"),
            ("é ${unclosed", "é ${unclosed", "é ${unclosed"),
            ("${}", "${}", "${}"),
        ] {
            assert_eq!(replace(text, &lookup), outside);
            assert_eq!(replace_hcl(text, &lookup), within);
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
