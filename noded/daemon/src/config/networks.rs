//! Host networks: names for addresses of the host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use protocol_model::canonical::defaults::HOST_NETWORK;

use super::file::HostNetworkBlock;
use super::ranges::Ranges;
use super::{ConfigError, invalid};

/// The addresses of one host network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNetworkFilter {
    /// The block that they are in; `None` for all.
    pub cidr: Option<IpNet>,
    /// The interface that they are on; `None` for all.
    pub interface: Option<String>,
    /// Their ports that are not for allocations.
    pub reserved_ports: String,
}

impl HostNetworkFilter {
    /// Whether an address of an interface is in it. IPv6 addresses of the attached link alone are
    /// only where a block names them: nothing can bind them without the interface's number.
    pub fn contains(&self, interface: &str, address: IpAddr) -> bool {
        let is_link_local = match address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        self.interface.as_ref().is_none_or(|it| it == interface)
            && match &self.cidr {
                Some(cidr) => cidr.contains(&address),
                None => !is_link_local,
            }
    }
}

pub(super) fn host_networks(
    given: BTreeMap<String, HostNetworkBlock>,
) -> Result<BTreeMap<String, HostNetworkFilter>, ConfigError> {
    let networks = given.into_iter().map(|(name, block)| {
        let filter = host_network(&name, block)?;
        Ok((name, filter))
    });
    networks.collect()
}

fn host_network(name: &str, block: HostNetworkBlock) -> Result<HostNetworkFilter, ConfigError> {
    let HostNetworkBlock {
        cidr,
        interface,
        reserved_ports,
    } = block;
    let field = format!("host_network {name:?}");
    if name.is_empty() || name == HOST_NETWORK {
        let problem = "the default host network is the address of the default route; \
                       give it another name";
        return Err(invalid(&field, problem));
    }
    if cidr.is_none() && interface.is_none() {
        return Err(invalid(&field, "give cidr, interface or both"));
    }
    let cidr = cidr.map(|text| {
        text.parse::<IpNet>().map_err(|_| {
            let problem = format!("{text:?} is no block of addresses such as 10.0.0.0/8");
            invalid(&format!("{field}.cidr"), problem)
        })
    });
    let ports = format!("{field}.reserved_ports");
    Ranges::parse(&ports, &reserved_ports, u32::from(u16::MAX))?;
    Ok(HostNetworkFilter {
        cidr: cidr.transpose()?,
        interface,
        reserved_ports,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(cidr: Option<&str>, interface: Option<&str>) -> HostNetworkFilter {
        let block = HostNetworkBlock {
            cidr: cidr.map(str::to_owned),
            interface: interface.map(str::to_owned),
            reserved_ports: "22,80-90".to_owned(),
        };
        host_network("lan", block).expect("a network")
    }

    #[test]
    fn addresses_are_chosen_by_block_and_interface() {
        let by_block = network(Some("10.0.0.0/8"), None);
        let by_interface = network(None, Some("eth1"));
        let by_both = network(Some("fe80::/10"), Some("eth1"));
        for (interface, address, expected) in [
            ("eth0", "10.1.2.3", [true, false, false]),
            ("eth1", "10.1.2.3", [true, true, false]),
            ("eth1", "192.168.0.1", [false, true, false]),
            ("eth1", "fe80::1", [false, false, true]),
            ("eth1", "fd00::1", [false, true, false]),
        ] {
            let address = address.parse().expect("an address");
            let found = [&by_block, &by_interface, &by_both];
            let found = found.map(|network| network.contains(interface, address));
            assert_eq!(found, expected, "{interface} {address}");
        }
    }

    #[test]
    fn a_network_without_addresses_or_with_the_default_s_name_is_refused() {
        let refused = |name: &str, cidr: Option<&str>, ports: &str| {
            let block = HostNetworkBlock {
                cidr: cidr.map(str::to_owned),
                interface: None,
                reserved_ports: ports.to_owned(),
            };
            host_network(name, block).expect_err("refused").to_string()
        };
        for (found, expected) in [
            (
                refused("lan", None, ""),
                "`host_network \"lan\"`: give cidr",
            ),
            (
                refused("lan", Some("10.0.0.0"), ""),
                "`host_network \"lan\".cidr`: \"10.0.0.0\" is no block",
            ),
            (
                refused("lan", Some("10.0.0.0/8"), "http"),
                "`host_network \"lan\".reserved_ports`: \"http\" is neither",
            ),
            (
                refused("default", Some("10.0.0.0/8"), ""),
                "`host_network \"default\"`: the default host network is",
            ),
        ] {
            assert!(found.starts_with(expected), "{found}");
        }
    }
}
