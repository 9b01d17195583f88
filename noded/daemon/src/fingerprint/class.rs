//! The computed class: nodes of one class are feasible for the same jobs. Properties whose name
//! begins with `unique.` are left out (Nomad's rule).

use std::collections::BTreeSet;

use protocol_model::Node;
use sha2::{Digest, Sha256};

use crate::identity::hex;

/// The class of a node: a hash of everything that feasibility looks at.
pub(super) fn of(node: &Node) -> String {
    let mut hash = Sha256::new();
    let mut add = |parts: &[&str]| {
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.update([0xff]);
    };
    add(&[&node.datacenter, &node.node_pool, &node.node_class]);
    for (section, values) in [("attr", &node.attributes), ("meta", &node.meta)] {
        for (name, value) in values
            .iter()
            .filter(|(name, _)| !name.starts_with("unique."))
        {
            add(&[section, name, value]);
        }
    }
    for (name, driver) in &node.drivers {
        add(&["driver", name, if driver.healthy { "1" } else { "0" }]);
    }
    for (name, volume) in &node.host_volumes {
        add(&["volume", name, if volume.read_only { "ro" } else { "rw" }]);
    }
    // Their addresses are the node's own.
    let networks: BTreeSet<&str> = node.node_resources.host_networks().collect();
    for name in networks {
        add(&["host_network", name]);
    }
    format!("v1:{}", &hex(&hash.finalize())[..32])
}
