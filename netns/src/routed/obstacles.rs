//! Reasons why a host cannot have bridge networks, or why they may not work. Pure: `survey`
//! collects the facts.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::{Forwarding, Layout};
use crate::addresses::Address;
use crate::routes::Route;

/// Prefixes up to this length cover everything: the default route, and the two halves of the
/// internet that some VPNs set in its place. Every route of ours is more specific.
const EVERYWHERE_BITS_MAX: u8 = 1;

/// A reason against bridge networks on this host. Its text names the object and says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The program nft is not installed.
    NftMissing,
    /// nft cannot list tables: not root, or a kernel without nftables.
    NftRefused {
        /// The words of nft.
        reason: String,
    },
    /// Addresses of the subnet are routed to something else.
    ForeignRoute {
        /// The subnet of this node.
        subnet: Ipv4Net,
        /// The destination of the route.
        destination: IpNet,
        /// The device that it leads to.
        link: String,
    },
    /// Another device has an address of the subnet.
    ForeignAddress {
        /// The subnet of this node.
        subnet: Ipv4Net,
        /// The address.
        address: IpAddr,
        /// The device that has it.
        link: String,
    },
    /// Another node of this host has allocations in the subnet.
    OtherNode {
        /// The subnet of this node.
        subnet: Ipv4Net,
        /// The first four hex digits of the other node's id.
        tag: u16,
        /// One of its links.
        link: String,
    },
    /// Another node of this host has a table for the subnet, but no allocation in it.
    OtherTable {
        /// The subnet of this node.
        subnet: Ipv4Net,
        /// The name of the other table.
        table: String,
    },
    /// The host does not forward packets, and the node must not change that.
    ForwardingOff,
    /// Another table drops what it does not know, and has no rule for our links.
    ForwardPolicy {
        /// The chain.
        chain: Chain,
        /// The beginning of the names of our links.
        link_prefix: String,
    },
}

impl Obstacle {
    /// Whether bridge networks cannot work. Otherwise parts of them may not.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        match self {
            Self::NftMissing
            | Self::NftRefused { .. }
            | Self::ForeignRoute { .. }
            | Self::ForeignAddress { .. }
            | Self::OtherNode { .. }
            | Self::ForwardingOff => true,
            // Two nodes in one subnet refuse each other's addresses one by one.
            Self::OtherTable { .. } | Self::ForwardPolicy { .. } => false,
        }
    }
}

impl Display for Obstacle {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NftMissing => formatter
                .write_str("cannot find nft in PATH or /usr/sbin: install the package nftables"),
            Self::NftRefused { reason } => {
                write!(
                    formatter,
                    "nft cannot list the tables of this host: {reason}"
                )
            }
            Self::ForeignRoute {
                subnet,
                destination,
                link,
            } => write!(
                formatter,
                "subnet {subnet} overlaps the route to {destination} over {link}: set another \
                 ipv4_subnet, or remove that route"
            ),
            Self::ForeignAddress {
                subnet,
                address,
                link,
            } => write!(
                formatter,
                "subnet {subnet} has the address {address} of {link}: set another ipv4_subnet, or \
                 remove that address"
            ),
            Self::OtherNode { subnet, tag, link } => write!(
                formatter,
                "subnet {subnet} is used by another node of this host, whose id begins with \
                 {tag:04x} (link {link}): give this node another ipv4_subnet"
            ),
            Self::OtherTable { subnet, table } => write!(
                formatter,
                "subnet {subnet} is in nftables table {table} of another node of this host: give \
                 this node another ipv4_subnet, or run `nft delete table inet {table}` if that \
                 node is gone"
            ),
            Self::ForwardingOff => formatter.write_str(
                "net.ipv4.ip_forward is 0: run `sysctl -w net.ipv4.ip_forward=1`, or set \
                 forwarding = \"set\"",
            ),
            Self::ForwardPolicy { chain, link_prefix } => write!(
                formatter,
                "chain {chain} drops forwarded packets by its policy: run `nft insert rule {chain} \
                 iifname \"{link_prefix}*\" accept` and `nft insert rule {chain} oifname \
                 \"{link_prefix}*\" accept`"
            ),
        }
    }
}

/// A chain of nftables, written as nft names it: `ip filter FORWARD`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chain {
    /// The family: `ip` or `inet`.
    pub family: String,
    /// The table.
    pub table: String,
    /// The chain.
    pub name: String,
}

impl Display for Chain {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            table,
            name,
        } = self;
        write!(formatter, "{family} {table} {name}")
    }
}

/// A device, by number and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) index: u32,
    pub(super) name: String,
}

/// The state of the host's network.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) devices: Vec<Device>,
    pub(super) routes: Vec<Route>,
    pub(super) addresses: Vec<Address>,
    pub(super) is_forwarding: bool,
    /// Tables of other nodes and their subnets.
    pub(super) other_tables: Vec<(String, Ipv4Net)>,
    /// Forward chains of other tables with policy drop that have no rule for our links.
    pub(super) dropping: Vec<Chain>,
}

/// The obstacles in these facts, fatal ones first.
pub(super) fn judge(layout: &Layout, forwarding: Forwarding, facts: &Facts) -> Vec<Obstacle> {
    let subnet = layout.subnet();
    let mut found = other_nodes(layout, facts);
    found.extend(foreign_routes(layout, facts));
    found.extend(foreign_addresses(layout, facts));
    if forwarding == Forwarding::Check && !facts.is_forwarding {
        found.push(Obstacle::ForwardingOff);
    }
    for (table, other) in &facts.other_tables {
        if overlaps(subnet, *other) {
            let table = table.clone();
            found.push(Obstacle::OtherTable { subnet, table });
        }
    }
    found.extend(facts.dropping.iter().map(|chain| Obstacle::ForwardPolicy {
        chain: chain.clone(),
        link_prefix: layout.link_prefix(),
    }));
    found
}

/// The first link of each other node whose address is in the subnet.
fn other_nodes(layout: &Layout, facts: &Facts) -> Vec<Obstacle> {
    let mut first_links = BTreeMap::new();
    for device in &facts.devices {
        if let Some(tag) = layout.tag_of_other_node(&device.name) {
            first_links
                .entry(tag)
                .or_insert_with(|| device.name.clone());
        }
    }
    let obstacle = |(tag, link)| Obstacle::OtherNode {
        subnet: layout.subnet(),
        tag,
        link,
    };
    first_links.into_iter().map(obstacle).collect()
}

fn foreign_routes(layout: &Layout, facts: &Facts) -> Vec<Obstacle> {
    let of_foreign = |route: &Route| {
        let IpNet::V4(destination) = route.destination else {
            return None;
        };
        let is_specific = destination.prefix_len() > EVERYWHERE_BITS_MAX;
        (is_specific && overlaps(layout.subnet(), destination)).then_some(())?;
        Some(Obstacle::ForeignRoute {
            subnet: layout.subnet(),
            destination: route.destination,
            link: foreign_device(layout, facts, route.link_index)?,
        })
    };
    facts.routes.iter().filter_map(of_foreign).collect()
}

fn foreign_addresses(layout: &Layout, facts: &Facts) -> Vec<Obstacle> {
    let of_foreign = |address: &Address| {
        let IpAddr::V4(ip) = address.ip() else {
            return None;
        };
        layout.subnet().contains(&ip).then_some(())?;
        Some(Obstacle::ForeignAddress {
            subnet: layout.subnet(),
            address: address.ip(),
            link: foreign_device(layout, facts, address.link_index)?,
        })
    };
    facts.addresses.iter().filter_map(of_foreign).collect()
}

/// The name of a device that belongs neither to this node nor to another one, which is named
/// already. A device that is gone by now takes its routes with it.
fn foreign_device(layout: &Layout, facts: &Facts, index: u32) -> Option<String> {
    let device = facts.devices.iter().find(|device| device.index == index)?;
    let is_nodes = device.name.starts_with(&layout.link_prefix())
        || layout.tag_of_other_node(&device.name).is_some();
    (!is_nodes).then(|| device.name.clone())
}

fn overlaps(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::Scope;

    fn layout() -> Layout {
        let subnet = "172.26.64.0/20".parse().expect("a network");
        Layout::new(subnet, 0x1a2b).expect("a layout")
    }

    fn device(index: u32, name: &str) -> Device {
        let name = name.to_owned();
        Device { index, name }
    }

    fn route(destination: &str, link_index: u32) -> Route {
        Route {
            destination: destination.parse().expect("a network"),
            link_index,
            gateway: None,
            source: None,
            metric: 0,
        }
    }

    fn address(network: &str, link_index: u32) -> Address {
        Address {
            link_index,
            network: network.parse().expect("a network"),
            scope: Scope::Universe,
            is_usable: true,
        }
    }

    fn texts(forwarding: Forwarding, facts: &Facts) -> Vec<String> {
        let found = judge(&layout(), forwarding, facts);
        found
            .iter()
            .map(|obstacle| format!("{} {obstacle}", obstacle.is_fatal()))
            .collect()
    }

    #[test]
    fn own_links_and_unrelated_routes_are_no_obstacle() {
        let facts = Facts {
            devices: vec![
                device(1, "lo"),
                device(2, "eth0"),
                device(3, "dv1a2bac1a4005"),
                // Of this node, from a subnet that it had before.
                device(4, "dv1a2b0a000005"),
                // Of another node, in a subnet of its own.
                device(5, "dv3c4d0a000005"),
            ],
            routes: vec![
                route("0.0.0.0/0", 2),
                route("0.0.0.0/1", 2),
                route("128.0.0.0/1", 2),
                route("10.0.0.0/8", 2),
                route("fd00::/8", 2),
                route("172.26.64.5/32", 3),
                route("172.26.64.9/32", 77), // gone by now
            ],
            addresses: vec![address("172.26.64.1/32", 3), address("10.0.0.7/24", 2)],
            is_forwarding: true,
            other_tables: vec![(
                "drover_3c4d".to_owned(),
                "10.0.0.0/16".parse().expect("net"),
            )],
            dropping: vec![],
        };
        assert_eq!(judge(&layout(), Forwarding::Check, &facts), []);
    }

    #[test]
    fn each_obstacle_names_its_object_and_the_remedy() {
        let facts = Facts {
            devices: vec![
                device(2, "nomad"),
                device(3, "dv3c4dac1a4002"),
                device(4, "dv3c4dac1a4003"),
            ],
            routes: vec![
                route("172.26.64.0/20", 2),
                route("172.16.0.0/12", 2),
                route("172.26.64.2/32", 3),
            ],
            addresses: vec![address("172.26.64.1/20", 2), address("172.26.64.1/32", 3)],
            is_forwarding: false,
            other_tables: vec![("drover_3c4d".to_owned(), layout().subnet())],
            dropping: vec![Chain {
                family: "ip".to_owned(),
                table: "filter".to_owned(),
                name: "FORWARD".to_owned(),
            }],
        };
        insta::assert_snapshot!(texts(Forwarding::Check, &facts).join("\n"));
        assert!(
            !judge(&layout(), Forwarding::Set, &facts).contains(&Obstacle::ForwardingOff),
            "the node may switch it on"
        );
    }

    #[test]
    fn texts_about_nft_say_what_to_do() {
        let refused = Obstacle::NftRefused {
            reason: "Operation not permitted".to_owned(),
        };
        assert!(refused.to_string().contains("Operation not permitted"));
        assert!(Obstacle::NftMissing.to_string().contains("install"));
        assert!(refused.is_fatal() && Obstacle::NftMissing.is_fatal());
    }
}
