//! What the left and right side of a constraint name on a node.

use protocol_model::Node;

/// A side of a constraint: a literal, or a property of the node.
///
/// Rule: `${node.unique.id}`, `${node.unique.name}`, `${node.datacenter}`, `${node.class}`,
/// `${node.pool}`, `${attr.X}`, `${meta.X}`; a text without `${` is itself. A property that the
/// node does not have resolves to nothing, which fails every operator but `!=`, `is_not_set` and
/// their like (Nomad, job specification, "constraint").
pub(crate) fn resolve<'a>(target: &'a str, node: &'a Node) -> Resolved<'a> {
    let Some(name) = interpolation(target) else {
        return Resolved::Value(target.into());
    };
    let value = match name {
        "node.unique.id" => return Resolved::Value(node.id.to_string().into()),
        "node.unique.name" => Some(node.name.as_str()),
        "node.datacenter" | "node.dc" => Some(node.datacenter.as_str()),
        "node.class" => Some(node.node_class.as_str()),
        "node.pool" => Some(node.node_pool.as_str()),
        "node.region" => Some("global"),
        _ => {
            if let Some(key) = name.strip_prefix("attr.") {
                node.attributes.get(key).map(String::as_str)
            } else if let Some(key) = name.strip_prefix("meta.") {
                node.meta.get(key).map(String::as_str)
            } else {
                None
            }
        }
    };
    value.map_or(Resolved::Missing, |value| Resolved::Value(value.into()))
}

/// Whether a side names a property that differs from node to node, so that no answer can be shared
/// by a class of nodes.
pub(crate) fn escapes_class(target: &str) -> bool {
    interpolation(target).is_some_and(|name| {
        name.starts_with("node.unique.")
            || name.starts_with("attr.unique.")
            || name.starts_with("meta.unique.")
    })
}

/// What a side stands for on one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Resolved<'a> {
    /// This value.
    Value(std::borrow::Cow<'a, str>),
    /// A property that the node does not have.
    Missing,
}

impl Resolved<'_> {
    /// The value, where there is one.
    pub(crate) fn value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing => None,
        }
    }
}

/// The name inside `${...}`. Older job files write `attr.x` bare, but also literals: only the form
/// with braces is a reference.
fn interpolation(target: &str) -> Option<&str> {
    target.strip_prefix("${")?.strip_suffix('}').map(str::trim)
}

#[cfg(test)]
mod tests {
    use protocol_model::NodeId;

    use super::*;

    #[test]
    fn sides_resolve_to_what_they_name() {
        let mut node = Node::new(NodeId::from_u128(7), "alpha", "dc1");
        node.attributes.insert("kernel.name".into(), "linux".into());
        node.meta.insert("rack".into(), "r1".into());
        for (target, expected) in [
            ("linux", Some("linux")),
            ("${attr.kernel.name}", Some("linux")),
            ("${meta.rack}", Some("r1")),
            ("${node.datacenter}", Some("dc1")),
            ("${node.unique.name}", Some("alpha")),
            ("${attr.none}", None),
            ("${nonsense}", None),
        ] {
            assert_eq!(resolve(target, &node).value(), expected, "{target}");
        }
        assert!(escapes_class("${node.unique.id}") && !escapes_class("${meta.rack}"));
    }
}
