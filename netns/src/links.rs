//! Network devices.

use std::fs;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};

use crate::request::{NetlinkError, dump};

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number, unique in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, where it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Whether it was switched on.
    pub state: LinkState,
    /// Whether it only leads back.
    pub is_loopback: bool,
    /// Speed in Mbit/s, where the driver knows.
    pub speed_mbits: Option<u32>,
}

/// Whether a device was switched on (`IFF_UP`); a cable may still be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Switched on.
    Up,
    /// Switched off.
    Down,
}

/// All devices of this namespace, by index.
///
/// # Errors
/// The kernel gave no consistent answer.
pub fn list_links() -> Result<Vec<Link>, NetlinkError> {
    let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let mut links = parse(dump("list links", &question)?);
    for link in &mut links {
        link.speed_mbits = speed(&link.name);
    }
    Ok(links)
}

/// Devices without a name, which the kernel never sends, are left out.
pub(crate) fn parse(messages: Vec<RouteNetlinkMessage>) -> Vec<Link> {
    let mut links: Vec<Link> = messages
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => from_message(link),
            _ => None,
        })
        .collect();
    links.sort_by_key(|link| link.index);
    links
}

fn from_message(message: LinkMessage) -> Option<Link> {
    let (mut name, mut mac, mut mtu) = (None, None, 0);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(value) => name = Some(value),
            LinkAttribute::Address(bytes) => mac = <[u8; 6]>::try_from(bytes).ok(),
            LinkAttribute::Mtu(bytes) => mtu = bytes,
            _ => {}
        }
    }
    let flags = message.header.flags;
    Some(Link {
        index: message.header.index,
        name: name?,
        mac,
        mtu,
        state: if flags.contains(LinkFlags::Up) {
            LinkState::Up
        } else {
            LinkState::Down
        },
        is_loopback: flags.contains(LinkFlags::Loopback),
        speed_mbits: None,
    })
}

/// Virtual devices answer -1 or an error: not known. sysfs shows the namespace that it was
/// mounted in, so a device of another namespace has none either.
fn speed(name: &str) -> Option<u32> {
    fs::read_to_string(format!("/sys/class/net/{name}/speed"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NetlinkMessage;

    use super::*;

    /// `RTM_NEWLINK` of `eth0`: index 2, up and broadcast, MTU 1500.
    const ETH0: [u8; 64] = [
        64, 0, 0, 0, 16, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, // header
        0, 0, 1, 0, 2, 0, 0, 0, 67, 16, 1, 0, 0, 0, 0, 0, // ifinfomsg
        9, 0, 3, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0, // name
        8, 0, 4, 0, 220, 5, 0, 0, // mtu
        10, 0, 1, 0, 2, 66, 172, 17, 0, 2, 0, 0, // address
    ];

    #[test]
    fn a_device_is_read_from_frozen_bytes() {
        let message = NetlinkMessage::deserialize(&ETH0)
            .expect("netlink")
            .into_parts()
            .1;
        let netlink_packet_core::NetlinkPayload::InnerMessage(message) = message else {
            panic!("no message");
        };
        let expected = Link {
            index: 2,
            name: "eth0".to_owned(),
            mac: Some([2, 66, 172, 17, 0, 2]),
            mtu: 1500,
            state: LinkState::Up,
            is_loopback: false,
            speed_mbits: None,
        };
        assert_eq!(parse(vec![message]), [expected]);
    }

    #[test]
    fn a_message_without_a_name_is_no_device() {
        assert_eq!(
            parse(vec![RouteNetlinkMessage::NewLink(LinkMessage::default())]),
            []
        );
    }
}
