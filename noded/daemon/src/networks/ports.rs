//! Ports of the host that lead into an allocation's network. Pure.

use std::net::Ipv4Addr;

use netns::Mapping;
use noded_core::AllocSpec;
use protocol_model::AllocatedPort;

/// The network of the host that a port is on unless the job names another one.
const DEFAULT_NETWORK: &str = "default";

/// The mappings of an allocation whose network has `address`. A port of the default host network
/// is on every address of the host, as with Nomad's bridge; one of a named network on that alone.
pub(super) fn mappings(spec: &AllocSpec, address: Ipv4Addr) -> Vec<Mapping> {
    let given = spec.alloc().allocated_resources.shared.ports.iter();
    let mapping = |port: &AllocatedPort| {
        let host = match is_named(spec, &port.label) {
            true => Some(port.host_ip.parse().ok()?),
            false => None,
        };
        let to = match port.to {
            0 => port.value,
            to => to,
        };
        Some(Mapping {
            host,
            port: port.value,
            address,
            to,
        })
    };
    given.filter_map(mapping).collect()
}

/// A port on an address of the host that no mapping can have: networks of mode bridge have IPv4.
pub(super) fn unmappable(spec: &AllocSpec) -> Option<&AllocatedPort> {
    let mut given = spec.alloc().allocated_resources.shared.ports.iter();
    given.find(|port| is_named(spec, &port.label) && port.host_ip.parse::<Ipv4Addr>().is_err())
}

fn is_named(spec: &AllocSpec, label: &str) -> bool {
    let mut ports = spec.group().networks.iter().flat_map(|it| it.ports());
    ports.any(|port| {
        port.label == label && !["", DEFAULT_NETWORK].contains(&port.host_network.as_str())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol_model::{AllocId, Allocation, EvalId, NodeId};
    use serde_json::json;

    use super::*;

    fn spec() -> AllocSpec {
        let job = json!({
            "ID": "web",
            "TaskGroups": [{
                "Name": "group",
                "Tasks": [{"Name": "main"}],
                "Networks": [{"Mode": "bridge", "DynamicPorts": [
                    {"Label": "http", "To": 8080},
                    {"Label": "admin", "HostNetwork": "private"},
                    {"Label": "same", "HostNetwork": "default"},
                ]}],
            }],
        });
        let alloc: Allocation = serde_json::from_value(json!({
            "ID": AllocId::from_u128(1), "Namespace": "default", "EvalID": EvalId::from_u128(2),
            "Name": "web.group[0]", "NodeID": NodeId::from_u128(3), "JobID": "web",
            "TaskGroup": "group",
            "AllocatedResources": {"Shared": {"Ports": [
                {"Label": "http", "Value": 20001, "To": 8080, "HostIP": "192.0.2.7"},
                {"Label": "admin", "Value": 20002, "To": 0, "HostIP": "10.0.0.7"},
                {"Label": "same", "Value": 20003, "To": 0, "HostIP": "192.0.2.7"},
            ]}},
        }))
        .unwrap();
        let job = serde_json::from_value(job).unwrap();
        AllocSpec::new(alloc, Arc::new(job)).unwrap()
    }

    #[test]
    fn ports_are_on_every_address_unless_they_name_a_network() {
        let address = Ipv4Addr::new(172, 26, 64, 2);
        let mapping = |host, port, to| Mapping {
            host,
            port,
            address,
            to,
        };
        let expected = [
            mapping(None, 20_001, 8080),
            mapping(Some(Ipv4Addr::new(10, 0, 0, 7)), 20_002, 20_002),
            mapping(None, 20_003, 20_003),
        ];
        assert_eq!(mappings(&spec(), address), expected);
    }

    #[test]
    fn a_port_on_an_address_of_ipv6_is_unmappable() {
        assert_eq!(unmappable(&spec()), None);
        let spec = spec();
        let mut alloc = spec.alloc().clone();
        let resources = Arc::make_mut(&mut alloc.allocated_resources);
        for port in &mut resources.shared.ports {
            port.host_ip = "fd00::7".to_owned();
        }
        let spec = AllocSpec::new(alloc, Arc::clone(spec.job())).unwrap();
        let found = unmappable(&spec).map(|port| port.label.as_str());
        assert_eq!(
            found,
            Some("admin"),
            "those of the default network are everywhere"
        );
    }
}
