//! The class of a node: nodes of one class are alike in everything that feasibility looks at, so
//! that one look answers for all of them, and a blocked evaluation is woken by the classes that can
//! help it.

use std::collections::BTreeSet;

use protocol_model::Node;
use uuid::Uuid;

/// The namespace of class hashes: any fixed value would do.
const CLASSES: Uuid = Uuid::from_u128(0x6472_6f76_6572_2d6e_6f64_652d_636c_6173);

/// The class of a node, from its facts. Whoever proposes a node's facts fills it in, so that
/// servers of two releases never compute different ones for the same entry.
///
/// Left out is what is unique to a node: attributes and metadata whose name begins with `unique.`
/// (as in Nomad), its id and name, and how much it has, which the fit looks at.
pub fn computed_class(node: &Node) -> String {
    let mut text = String::new();
    let mut put = |key: &str, value: &str| {
        // Lengths keep `a` + `bc` and `ab` + `c` apart.
        text.push_str(&format!("{}:{key}={}:{value};", key.len(), value.len()));
    };
    put("datacenter", &node.datacenter);
    put("pool", &node.node_pool);
    put("class", &node.node_class);
    let unique = |key: &str| key.starts_with("unique.");
    for (key, value) in node.attributes.iter().filter(|(key, _)| !unique(key)) {
        put(&format!("attr.{key}"), value);
    }
    for (key, value) in node.meta.iter().filter(|(key, _)| !unique(key)) {
        put(&format!("meta.{key}"), value);
    }
    for (name, driver) in &node.drivers {
        put(
            &format!("driver.{name}"),
            &format!("{} {}", driver.detected, driver.healthy),
        );
    }
    for (name, volume) in &node.host_volumes {
        put(&format!("volume.{name}"), &volume.read_only.to_string());
    }
    // Their addresses are the node's own.
    let networks: BTreeSet<&str> = node.node_resources.host_networks().collect();
    for name in networks {
        put(&format!("host_network.{name}"), "");
    }
    format!("v1:{}", Uuid::new_v5(&CLASSES, text.as_bytes()).as_simple())
}

#[cfg(test)]
mod tests {
    use protocol_model::NodeId;

    use super::*;

    #[test]
    fn only_what_is_unique_to_a_node_does_not_matter() {
        let mut one = Node::new(NodeId::from_u128(1), "one", "dc1");
        let mut two = Node::new(NodeId::from_u128(2), "two", "dc1");
        one.attributes
            .insert("unique.hostname".to_owned(), "one".to_owned());
        assert_eq!(computed_class(&one), computed_class(&two));
        two.attributes
            .insert("kernel.name".to_owned(), "linux".to_owned());
        assert_ne!(computed_class(&one), computed_class(&two));
    }

    #[test]
    fn a_class_is_the_same_in_every_release() {
        let node = Node::new(NodeId::from_u128(1), "one", "dc1");
        assert_eq!(computed_class(&node), "v1:7caeb31b068d578181c5f192415a0486");
    }
}
