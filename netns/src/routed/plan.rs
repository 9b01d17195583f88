//! The netlink requests that wire one namespace, as data. Nothing here talks to the kernel.
//!
//! ```text
//!  host                                            namespace
//!  ┌──────────────────────────────┐               ┌──────────────────────────────────┐
//!  │ dv1a2bac1a4005  172.26.64.1/32 ──── veth ──── eth0  172.26.64.5/32             │
//!  │ route 172.26.64.5 dev dv...  │               │ default via 169.254.1.1 onlink   │
//!  │ neighbour 172.26.64.5 (MAC)  │               │ neighbour 169.254.1.1 (MAC)      │
//!  └──────────────────────────────┘               └──────────────────────────────────┘
//! ```
//!
//! Both MAC addresses are derived from the address, so that both neighbours are permanent from the
//! beginning: no packet ever waits for ARP.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::RawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    AfSpecInet, AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InetDevConf, InfoData, InfoKind,
    InfoVeth, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;

use super::Layout;
use crate::batch::Step;

/// The name of the device inside.
pub(super) const INSIDE_NAME: &str = "eth0";
/// The next hop inside: a link-local address that no host owns; only its neighbour entry counts.
const NEXT_HOP: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The loopback is the first device of every namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK_INDEX: u32 = 1;
/// `rp_filter`: a packet must come from the link that its source is routed to (ip-sysctl.rst).
const STRICT: i32 = 1;

/// Which end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// On the host.
    Outside,
    /// In the namespace.
    Inside,
}

/// A locally administered, individual MAC address (IEEE 802: second bit set, first one clear).
fn mac(end: End, address: Ipv4Addr) -> Vec<u8> {
    let first = match end {
        End::Outside => 0x06,
        End::Inside => 0x02,
    };
    let [a, b, c, d] = address.octets();
    vec![first, 0xd5, a, b, c, d]
}

/// Creates the pair of links, its inner end in the namespace of the descriptor, and asks for the
/// outer one, whose answer has the numbers of both.
pub(super) fn create(layout: &Layout, address: Ipv4Addr, namespace: RawFd) -> Vec<Step> {
    // One queue each: the default is one per processor, each with its entries in sysfs.
    let queues = [LinkAttribute::NumTxQueues(1), LinkAttribute::NumRxQueues(1)];
    let mut inner = LinkMessage::default();
    inner.attributes = vec![
        LinkAttribute::IfName(INSIDE_NAME.to_owned()),
        LinkAttribute::Address(mac(End::Inside, address)),
        LinkAttribute::NetNsFd(namespace),
    ];
    inner.attributes.extend(queues.clone());
    let name = LinkAttribute::IfName(layout.link_name(address));
    let mut outer = LinkMessage::default();
    outer.attributes = vec![
        name.clone(),
        LinkAttribute::Address(mac(End::Outside, address)),
    ];
    outer.attributes.extend(queues);
    outer.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(inner))),
    ]));
    let mut question = LinkMessage::default();
    question.attributes = vec![
        name,
        LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]),
    ];
    vec![
        made("create the link", RouteNetlinkMessage::NewLink(outer)),
        Step::new("read the link", RouteNetlinkMessage::GetLink(question)),
    ]
}

/// Wires the host's end, the device with the number `index`.
pub(super) fn outside(layout: &Layout, address: Ipv4Addr, index: u32) -> Vec<Step> {
    let mut settings = InetDevConf::default();
    settings.rp_filter = STRICT;
    // Without it no packet from or to 127.0.0.1 may use this link; nftables closes the hole.
    settings.route_localnet = 1;
    let inet = AfSpecUnspec::Inet(vec![AfSpecInet::DevConfRequest(settings)]);
    let mut set = up(index);
    set.attributes = vec![LinkAttribute::AfSpecUnspec(vec![inet])];

    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        destination_prefix_length: 32,
        scope: RouteScope::Link,
        ..main_route()
    };
    route.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(address)),
        RouteAttribute::Oif(index),
    ];
    vec![
        without_ipv6_addresses(index),
        Step::new("set up the link", RouteNetlinkMessage::SetLink(set)),
        local_address(layout.gateway(), index),
        neighbour(address, mac(End::Inside, address), index),
        made("route the address", RouteNetlinkMessage::NewRoute(route)),
    ]
}

/// Wires the namespace's end, the device with the number `index`, and its loopback.
pub(super) fn inside(address: Ipv4Addr, index: u32) -> Vec<Step> {
    let mut default = RouteMessage::default();
    default.header = RouteHeader {
        // The next hop is behind this link although no route says so.
        flags: RouteFlags::Onlink,
        ..main_route()
    };
    default.attributes = vec![
        RouteAttribute::Gateway(RouteAddress::Inet(NEXT_HOP)),
        RouteAttribute::Oif(index),
    ];
    vec![
        Step::new(
            "switch the loopback on",
            RouteNetlinkMessage::SetLink(up(LOOPBACK_INDEX)),
        ),
        without_ipv6_addresses(index),
        Step::new(
            "switch the inner link on",
            RouteNetlinkMessage::SetLink(up(index)),
        ),
        local_address(address, index),
        neighbour(NEXT_HOP, mac(End::Outside, address), index),
        made(
            "set the default route",
            RouteNetlinkMessage::NewRoute(default),
        ),
    ]
}

/// A step that creates something which must not be there yet.
fn made(operation: &'static str, message: RouteNetlinkMessage) -> Step {
    Step {
        flags: NLM_F_CREATE | NLM_F_EXCL,
        ..Step::new(operation, message)
    }
}

fn up(index: u32) -> LinkMessage {
    let mut up = LinkMessage::default();
    up.header.index = index;
    up.header.flags = LinkFlags::Up;
    up.header.change_mask = LinkFlags::Up;
    up
}

/// No link-local address of IPv6: nothing would use it, and its checks for duplicates, its router
/// solicitations and its multicast reports cost timers on every link.
fn without_ipv6_addresses(index: u32) -> Step {
    let mut set = LinkMessage::default();
    set.header.index = index;
    let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
    set.attributes = vec![LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(
        vec![mode],
    )])];
    Step {
        // A kernel without IPv6 has nothing to switch off.
        tolerated: Some(Errno::AFNOSUPPORT),
        ..Step::new(
            "switch IPv6 addresses off",
            RouteNetlinkMessage::SetLink(set),
        )
    }
}

fn local_address(address: Ipv4Addr, index: u32) -> Step {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = 32;
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    message.attributes = vec![
        AddressAttribute::Local(IpAddr::V4(address)),
        AddressAttribute::Address(IpAddr::V4(address)),
    ];
    made("set the address", RouteNetlinkMessage::NewAddress(message))
}

fn neighbour(address: Ipv4Addr, mac: Vec<u8>, index: u32) -> Step {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.header.kind = RouteType::Unspec;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
        NeighbourAttribute::LinkLayerAddress(mac),
    ];
    made(
        "set the neighbour",
        RouteNetlinkMessage::NewNeighbour(message),
    )
}

fn main_route() -> RouteHeader {
    RouteHeader {
        address_family: AddressFamily::Inet,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::encode;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 26, 64, 5);

    fn layout() -> Layout {
        let subnet = "172.26.64.0/20".parse().expect("a network");
        Layout::new(subnet, 0x1a2b).expect("a layout")
    }

    /// The operations, and the bytes that the kernel gets.
    fn written(steps: &[Step]) -> String {
        let line = |step: &Step| {
            let bytes = encode(std::slice::from_ref(step));
            let hex: Vec<String> = bytes
                .chunks(4)
                .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect())
                .collect();
            let lines: Vec<String> = hex.chunks(8).map(|words| words.join(" ")).collect();
            format!("{}\n  {}\n", step.operation, lines.join("\n  "))
        };
        steps.iter().map(line).collect()
    }

    #[test]
    fn requests_that_create_a_link_have_frozen_bytes() {
        insta::assert_snapshot!(written(&create(&layout(), ADDRESS, 9)));
    }

    #[test]
    fn requests_that_wire_the_hosts_end_have_frozen_bytes() {
        insta::assert_snapshot!(written(&outside(&layout(), ADDRESS, 7)));
    }

    #[test]
    fn requests_that_wire_the_namespaces_end_have_frozen_bytes() {
        insta::assert_snapshot!(written(&inside(ADDRESS, 2)));
    }

    #[test]
    fn mac_addresses_differ_by_end_and_address_and_are_local() {
        let next = Ipv4Addr::new(172, 26, 64, 6);
        let all = [
            mac(End::Inside, ADDRESS),
            mac(End::Outside, ADDRESS),
            mac(End::Inside, next),
            mac(End::Outside, next),
        ];
        for (place, mac) in all.iter().enumerate() {
            assert_eq!(mac[0] & 3, 2, "locally administered, of one device");
            assert!(!all[..place].contains(mac), "{mac:?}");
        }
    }
}
