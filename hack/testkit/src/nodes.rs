//! Ordinary nodes.

use protocol_model::{
    DriverInfo, IDENTITY_ATTRIBUTE, NetworkResource, Node, NodeId, NodeNetworkAddress,
    NodeNetworkResource,
};

/// A node of 4000 MHz, 8192 MiB and 100 GiB in `dc1`, with both drivers, at 10.0.0.`number`.
pub fn node(number: u8) -> Node {
    let id = NodeId::from_u128(0x0e00_0000_0000_4000_8000_0000_0000_0000 + u128::from(number));
    let mut node = Node::new(id, format!("node-{number}"), "dc1");
    for (name, value) in [("kernel.name", "linux"), (IDENTITY_ATTRIBUTE, "true")] {
        node.attributes.insert(name.to_owned(), value.to_owned());
    }
    node.computed_class = "linux".to_owned();
    for driver in ["raw_exec", "exec"] {
        let info = DriverInfo {
            detected: true,
            healthy: true,
            ..DriverInfo::default()
        };
        node.drivers.insert(driver.to_owned(), info);
    }
    let resources = &mut node.node_resources;
    resources.cpu.cpu_shares = 4000;
    resources.cpu.total_cpu_cores = 4;
    resources.cpu.reservable_cpu_cores = (0..4).collect();
    resources.memory.memory_mb = 8192;
    resources.disk.disk_mb = 100 * 1024;
    resources.min_dynamic_port = 20_000;
    resources.max_dynamic_port = 32_000;
    resources.networks.push(NetworkResource {
        device: "eth0".to_owned(),
        ip: format!("10.0.0.{number}"),
        ..NetworkResource::default()
    });
    node
}

/// Gives a node an interface with these addresses, all of them in the host network `name`.
pub fn add_host_network(node: &mut Node, name: &str, addresses: &[&str], reserved_ports: &str) {
    let addresses = addresses.iter().map(|address| NodeNetworkAddress {
        alias: name.to_owned(),
        address: (*address).to_owned(),
        reserved_ports: reserved_ports.to_owned(),
        ..NodeNetworkAddress::default()
    });
    node.node_resources.node_networks.push(NodeNetworkResource {
        mode: "host".to_owned(),
        device: format!("{name}0"),
        addresses: addresses.collect(),
        ..NodeNetworkResource::default()
    });
    node.computed_class.push_str(name);
}
