//! What a simulated node says of itself: its identity and the facts that schedulers look at. Both
//! come from the fleet's seed, so that the same fleet can come back.

use noded_core::Settings;
use noded_core::driver::{DriverCapabilities, TaskRoot};
use noded_daemon::identity::NodeIdentity;
use protocol_model::{DriverInfo, IDENTITY_ATTRIBUTE, NetworkResource, Node, NodeId};

use crate::draws::Draws;

/// The drivers that are imitated, and what they can do.
const DRIVERS: [(&str, DriverCapabilities); 3] = [
    ("exec", DriverCapabilities::of(TaskRoot::OwnRoot)),
    ("raw_exec", DriverCapabilities::of(TaskRoot::Host)),
    ("mock_driver", DriverCapabilities::of(TaskRoot::Host)),
];

/// What a node may give away.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// CPU in MHz.
    pub cpu_mhz: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
}

/// The numbers of one node, by the fleet's seed and the node's own number.
fn draws_of(seed: u64, number: u32) -> Draws {
    let mut draws = Draws::of(seed ^ (u64::from(number) << 32 | 0x6e6f_6465));
    draws.next();
    draws
}

/// Who node `number` of the fleet is.
pub fn identity(seed: u64, number: u32) -> NodeIdentity {
    let mut draws = draws_of(seed, number);
    let id = u128::from_le_bytes(draws.bytes());
    NodeIdentity {
        // The marks of a random id (RFC 9562, version 4).
        id: NodeId::from_u128(id & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62),
        secret: draws.bytes(),
    }
}

/// The settings of a daemon: its nonces and its jitter are its own in every life.
pub fn settings(process: [u8; 16], life: u64) -> Settings {
    let (low, high) = process.split_at(8);
    let number = |half: &[u8]| half.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    // Both halves are mixed: jitter comes from one of them alone.
    let mut draws = Draws::of(number(low) ^ life.rotate_left(32));
    let mut seed = draws.bytes::<16>();
    for (byte, own) in seed.iter_mut().zip(high.iter().chain(high)) {
        *byte ^= own;
    }
    let mut settings = Settings::new("/nodesim", seed);
    settings.drivers = DRIVERS.map(|(name, it)| (name.to_owned(), it)).into();
    settings
}

/// What node `number` of a class says of itself.
pub fn node(id: NodeId, class: &str, number: u32, capacity: Capacity) -> Node {
    let mut node = Node::new(id, format!("{class}-{number}"), "dc1");
    class.clone_into(&mut node.node_class);
    for (name, value) in [
        ("kernel.name", "linux"),
        ("cpu.arch", std::env::consts::ARCH),
        (IDENTITY_ATTRIBUTE, "true"),
        ("unique.hostname", node.name.as_str()),
    ] {
        node.attributes.insert(name.to_owned(), value.to_owned());
    }
    for (name, _) in DRIVERS {
        let info = DriverInfo {
            detected: true,
            healthy: true,
            ..DriverInfo::default()
        };
        node.drivers.insert(name.to_owned(), info);
    }
    let [_, high, middle, low] = number.to_be_bytes();
    let resources = &mut node.node_resources;
    resources.cpu.cpu_shares = i64::from(capacity.cpu_mhz);
    resources.cpu.total_cpu_cores = 4;
    resources.memory.memory_mb = i64::from(capacity.memory_mib);
    resources.disk.disk_mb = 100 * 1024;
    resources.min_dynamic_port = 20_000;
    resources.max_dynamic_port = 32_000;
    resources.networks.push(NetworkResource {
        device: "eth0".to_owned(),
        ip: format!("10.{high}.{middle}.{low}"),
        ..NetworkResource::default()
    });
    node
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_makes_the_same_nodes_again_and_no_two_are_one() {
        let ids = |seed| -> Vec<NodeId> { (0..1000).map(|n| identity(seed, n).id).collect() };
        assert_eq!(ids(7), ids(7));
        let both: BTreeSet<NodeId> = ids(7).into_iter().chain(ids(8)).collect();
        assert_eq!(both.len(), 2000);
        assert_ne!(identity(7, 1).secret, identity(7, 2).secret);
        let version = identity(7, 1).id.to_string();
        assert_eq!(&version[14..15], "4", "{version}");
        assert!("89ab".contains(&version[19..20]), "{version}");
    }

    #[test]
    fn no_two_nodes_draw_the_same_nonces() {
        let seeds: BTreeSet<[u8; 16]> =
            (0..1000).map(|life| settings([9; 16], life).seed).collect();
        assert_eq!(seeds.len(), 1000);
    }
}
