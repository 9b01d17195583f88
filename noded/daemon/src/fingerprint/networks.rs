//! Networks of the host: the interface of its default route, and the addresses that its operator
//! gave names to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netns::{Address, Link, LinkState};
use protocol_error_chain::chain;
use protocol_model::canonical::defaults::HOST_NETWORK;
use protocol_model::{HostNetwork, NetworkResource, Node, NodeNetworkAddress, NodeNetworkResource};

use super::set;
use crate::config::HostNetworkFilter;

/// The interface and address that ports of the default host network are on.
struct DefaultNetwork {
    device: String,
    ip: IpAddr,
}

/// Adds what the node is reached by.
pub(super) fn add(node: &mut Node, named: &BTreeMap<String, HostNetworkFilter>) {
    let default = default_network();
    let ip = default.ip.to_string();
    set(node, "unique.network.ip-address", &ip);
    let width = if default.ip.is_ipv6() { 128 } else { 32 };
    let resources = &mut node.node_resources;
    resources.networks = vec![NetworkResource {
        mode: "host".to_owned(),
        device: default.device.clone(),
        cidr: format!("{ip}/{width}"),
        ip,
        ..NetworkResource::default()
    }];
    let found = netns::list_links().and_then(|links| Ok((links, netns::list_addresses()?)));
    let (links, addresses) = found.unwrap_or_else(|error| {
        tracing::warn!(error = %chain(&error), "the host's addresses cannot be read");
        (Vec::new(), Vec::new())
    });
    resources.node_networks = interfaces(&default, named, &links, &addresses);
    for name in named.keys() {
        if resources.addresses(name).next().is_none() {
            tracing::warn!(host_network = name, "no address of this host is in it");
        }
    }
    node.host_networks = named
        .iter()
        .map(|(name, filter)| (name.clone(), configured(name, filter)))
        .collect();
}

fn default_network() -> DefaultNetwork {
    let found = match netns::default_interface() {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(error = %chain(&error), "the default route cannot be read");
            None
        }
    };
    let reachable = found.and_then(|found| {
        Some(DefaultNetwork {
            device: found.link.name,
            ip: found.address?,
        })
    });
    // A host without a route still runs tasks, which reach each other on the loopback.
    reachable.unwrap_or_else(|| DefaultNetwork {
        device: "lo".to_owned(),
        ip: IpAddr::from([127, 0, 0, 1]),
    })
}

/// Each interface that has an address of a host network, IPv4 first.
fn interfaces(
    default: &DefaultNetwork,
    named: &BTreeMap<String, HostNetworkFilter>,
    links: &[Link],
    addresses: &[Address],
) -> Vec<NodeNetworkResource> {
    let mut interfaces = Vec::new();
    for link in links {
        let is_default = link.name == default.device;
        let own = addresses.iter().filter(|it| it.link_index == link.index);
        let own = own.filter(|it| it.is_usable && link.state == LinkState::Up);
        let mut own: Vec<IpAddr> = own.map(Address::ip).collect();
        // The default address is there even where the route's is none of the interface's.
        if is_default && !own.contains(&default.ip) {
            own.insert(0, default.ip);
        }
        own.sort_by_key(IpAddr::is_ipv6);
        let mut members = Vec::new();
        for ip in own {
            if is_default && ip == default.ip {
                members.push(member(HOST_NETWORK, ip, ""));
            }
            for (name, filter) in named {
                if filter.contains(&link.name, ip) {
                    members.push(member(name, ip, &filter.reserved_ports));
                }
            }
        }
        if !members.is_empty() {
            interfaces.push(NodeNetworkResource {
                mode: "host".to_owned(),
                device: link.name.clone(),
                mac_address: link.mac.map(mac_text).unwrap_or_default(),
                speed: link.speed_mbits.unwrap_or(0),
                addresses: members,
            });
        }
    }
    interfaces
}

fn member(alias: &str, ip: IpAddr, reserved_ports: &str) -> NodeNetworkAddress {
    NodeNetworkAddress {
        family: if ip.is_ipv6() { "ipv6" } else { "ipv4" }.to_owned(),
        alias: alias.to_owned(),
        address: ip.to_string(),
        reserved_ports: reserved_ports.to_owned(),
        gateway: String::new(),
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn configured(name: &str, filter: &HostNetworkFilter) -> HostNetwork {
    let HostNetworkFilter {
        cidr,
        interface,
        reserved_ports,
    } = filter;
    HostNetwork {
        name: name.to_owned(),
        cidr: cidr.map(|cidr| cidr.to_string()).unwrap_or_default(),
        interface: interface.clone().unwrap_or_default(),
        reserved_ports: reserved_ports.clone(),
    }
}

#[cfg(test)]
mod tests {
    use netns::Scope;

    use super::*;

    fn link(index: u32, name: &str, state: LinkState) -> Link {
        Link {
            index,
            name: name.to_owned(),
            mac: Some([2, 0, 0, 0, 0, 0x1f]),
            mtu: 1500,
            state,
            is_loopback: name == "lo",
            speed_mbits: None,
        }
    }

    fn address(link_index: u32, network: &str) -> Address {
        Address {
            link_index,
            network: network.parse().expect("a network"),
            scope: Scope::Universe,
            is_usable: true,
        }
    }

    fn filter(cidr: Option<&str>, interface: Option<&str>) -> HostNetworkFilter {
        HostNetworkFilter {
            cidr: cidr.map(|cidr| cidr.parse().expect("a block")),
            interface: interface.map(str::to_owned),
            reserved_ports: "22".to_owned(),
        }
    }

    #[test]
    fn an_address_is_in_every_host_network_that_it_matches() {
        let default = DefaultNetwork {
            device: "eth0".to_owned(),
            ip: IpAddr::from([10, 0, 0, 7]),
        };
        let named = BTreeMap::from([
            ("inside".to_owned(), filter(Some("10.0.0.0/8"), None)),
            ("lan".to_owned(), filter(None, Some("eth1"))),
            ("off".to_owned(), filter(None, Some("eth2"))),
        ]);
        let links = [
            link(1, "lo", LinkState::Up),
            link(2, "eth0", LinkState::Up),
            link(3, "eth1", LinkState::Up),
            link(4, "eth2", LinkState::Down),
        ];
        let mut unusable = address(3, "192.168.0.9/24");
        unusable.is_usable = false;
        let addresses = [
            address(1, "127.0.0.1/8"),
            address(2, "10.0.0.7/24"),
            address(2, "10.0.0.8/24"),
            address(3, "fd00::7/64"),
            address(3, "192.168.0.7/24"),
            unusable,
            address(4, "192.168.9.7/24"),
        ];
        let found = interfaces(&default, &named, &links, &addresses);
        let found: Vec<_> = found
            .iter()
            .flat_map(|it| {
                it.addresses
                    .iter()
                    .map(|member| (it.device.as_str(), member))
            })
            .map(|(device, it)| {
                let NodeNetworkAddress {
                    family,
                    alias,
                    address,
                    reserved_ports,
                    gateway: _,
                } = it;
                format!("{device} {family} {alias} {address} {reserved_ports}")
            })
            .collect();
        assert_eq!(
            found,
            [
                "eth0 ipv4 default 10.0.0.7 ",
                "eth0 ipv4 inside 10.0.0.7 22",
                "eth0 ipv4 inside 10.0.0.8 22",
                "eth1 ipv4 lan 192.168.0.7 22",
                "eth1 ipv6 lan fd00::7 22",
            ]
        );
    }
}
