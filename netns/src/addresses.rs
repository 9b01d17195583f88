//! Addresses of network devices.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};

use crate::request::{NetlinkError, dump};

/// An address of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The device.
    pub link_index: u32,
    /// The address and the length of its network's prefix.
    pub network: IpNet,
    /// How far it is valid.
    pub scope: Scope,
    /// Whether it may be used for new connections: not still being checked for duplicates, not
    /// found to be one, not deprecated.
    pub is_usable: bool,
}

/// How far an address is valid (rtnetlink(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everywhere.
    Universe,
    /// Inside the site.
    Site,
    /// On the attached network only.
    Link,
    /// On this host only.
    Host,
    /// Anything else, by the kernel's number.
    Other(u8),
}

impl Address {
    /// The address without its prefix.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.network.addr()
    }
}

/// All addresses of this namespace, by device, in the kernel's order.
///
/// # Errors
/// The kernel gave no consistent answer.
pub fn list_addresses() -> Result<Vec<Address>, NetlinkError> {
    let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    Ok(parse(&dump("list addresses", &question)?))
}

pub(crate) fn parse(messages: &[RouteNetlinkMessage]) -> Vec<Address> {
    let mut addresses: Vec<Address> = messages
        .iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewAddress(address) => from_message(address),
            _ => None,
        })
        .collect();
    // Stable: the first address of a device is its primary one.
    addresses.sort_by_key(|address| address.link_index);
    addresses
}

/// On a point-to-point device `Address` is the other end and `Local` is ours; elsewhere they are
/// the same, and IPv6 sends only the former.
fn from_message(message: &AddressMessage) -> Option<Address> {
    let (mut local, mut address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => address = Some(*ip),
            _ => {}
        }
    }
    let unusable = AddressHeaderFlags::Tentative
        | AddressHeaderFlags::Dadfailed
        | AddressHeaderFlags::Deprecated;
    Some(Address {
        link_index: message.header.index,
        network: IpNet::new(local.or(address)?, message.header.prefix_len).ok()?,
        scope: match message.header.scope {
            AddressScope::Universe => Scope::Universe,
            AddressScope::Site => Scope::Site,
            AddressScope::Link => Scope::Link,
            AddressScope::Host => Scope::Host,
            other => Scope::Other(u8::from(other)),
        },
        is_usable: !message.header.flags.intersects(unusable),
    })
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkMessage, NetlinkPayload};

    use super::*;

    fn message(bytes: &[u8]) -> RouteNetlinkMessage {
        match NetlinkMessage::deserialize(bytes)
            .expect("netlink")
            .into_parts()
            .1
        {
            NetlinkPayload::InnerMessage(message) => message,
            other => panic!("no message: {other:?}"),
        }
    }

    /// `RTM_NEWADDR` of 10.0.0.7/24 on device 2, global.
    const IPV4: [u8; 40] = [
        40, 0, 0, 0, 20, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, // header
        2, 24, 128, 0, 2, 0, 0, 0, // ifaddrmsg
        8, 0, 1, 0, 10, 0, 0, 1, // address: the other end
        8, 0, 2, 0, 10, 0, 0, 7, // local: ours
    ];

    /// `RTM_NEWADDR` of fe80::1/64 on device 2, link scope, tentative.
    const IPV6: [u8; 44] = [
        44, 0, 0, 0, 20, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, // header
        10, 64, 192, 253, 2, 0, 0, 0, // ifaddrmsg
        20, 0, 1, 0, 254, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    ];

    #[test]
    fn our_end_of_a_point_to_point_device_is_the_address() {
        let [address] = &parse(&[message(&IPV4)])[..] else {
            panic!("one address")
        };
        assert_eq!(address.network.to_string(), "10.0.0.7/24");
        assert_eq!((address.link_index, address.scope), (2, Scope::Universe));
        assert!(address.is_usable);
    }

    #[test]
    fn a_tentative_address_is_not_usable() {
        let [address] = &parse(&[message(&IPV6)])[..] else {
            panic!("one address")
        };
        assert_eq!(address.network.to_string(), "fe80::1/64");
        assert_eq!(address.scope, Scope::Link);
        assert!(!address.is_usable);
    }

    #[test]
    fn a_prefix_that_cannot_be_is_left_out() {
        let mut bytes = IPV4;
        bytes[17] = 33;
        assert_eq!(parse(&[message(&bytes)]), []);
    }
}
