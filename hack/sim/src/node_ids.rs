//! The ids of nodes: their offsets, recognizable in a trace.

use std::sync::Arc;

use controlplane_state::{Digest, computed_class};
use protocol_model::{DriverInfo, IDENTITY_ATTRIBUTE, NetworkResource, Node, NodeId};

use crate::event::NodeIx;

const BASE: u128 = 0x0e00_0000_0000_4000_8000_0000_0000_0000;

/// The id of a node.
pub fn node_id(node: NodeIx) -> NodeId {
    NodeId::from_u128(BASE + u128::from(node))
}

/// The node of an id.
pub fn node_ix(id: NodeId) -> NodeIx {
    let bytes = id.as_bytes();
    let tail = [bytes[12], bytes[13], bytes[14], bytes[15]];
    u32::from_be_bytes(tail)
}

/// The digest of a node's secret.
pub fn secret_hash(node: NodeIx) -> Digest {
    let mut digest = [7; 32];
    digest[..4].copy_from_slice(&node.to_be_bytes());
    Digest(digest)
}

/// What a node says about itself: 4000 MHz, 8 GiB, raw_exec, and the rack that it was told.
pub fn facts(ix: NodeIx, rack: u32) -> Arc<Node> {
    let mut node = Node::new(node_id(ix), format!("n{ix}"), "dc1");
    for (name, value) in [("kernel.name", "linux"), (IDENTITY_ATTRIBUTE, "true")] {
        node.attributes.insert(name.to_owned(), value.to_owned());
    }
    let driver = DriverInfo {
        detected: true,
        healthy: true,
        ..DriverInfo::default()
    };
    node.drivers.insert("raw_exec".to_owned(), driver);
    let resources = &mut node.node_resources;
    resources.cpu.cpu_shares = 4000;
    resources.cpu.total_cpu_cores = 4;
    resources.memory.memory_mb = 8192;
    resources.disk.disk_mb = 100 * 1024;
    resources.min_dynamic_port = 20_000;
    resources.max_dynamic_port = 32_000;
    let [_, high, mid, low] = ix.to_be_bytes();
    resources.networks.push(NetworkResource {
        device: "eth0".to_owned(),
        ip: format!("10.{high}.{mid}.{low}"),
        ..NetworkResource::default()
    });
    node.meta.insert("rack".to_owned(), rack.to_string());
    node.computed_class = computed_class(&node);
    Arc::new(node)
}
