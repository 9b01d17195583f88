//! Routes of the main table, and what "the" network interface of a host is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::addresses::{Address, Scope, list_addresses};
use crate::links::{Link, list_links};
use crate::request::{NetlinkError, dump};

/// A route to somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub destination: IpNet,
    /// The device it leaves through. A route over several devices names its first.
    pub link_index: u32,
    /// The next router; none when the destination is attached.
    pub gateway: Option<IpAddr>,
    /// The address that the kernel prefers to send from.
    pub source: Option<IpAddr>,
    /// The smallest one wins.
    pub metric: u32,
}

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// The device that a host reaches the world through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultInterface {
    /// The device.
    pub link: Link,
    /// The address that others reach this host by.
    pub address: Option<IpAddr>,
}

/// Routes of the main table of this namespace.
///
/// # Errors
/// The kernel gave no consistent answer.
pub fn list_routes(family: Family) -> Result<Vec<Route>, NetlinkError> {
    let mut question = RouteMessage::default();
    question.header.address_family = match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    Ok(parse(&dump(
        "list routes",
        &RouteNetlinkMessage::GetRoute(question),
    )?))
}

/// The default route: IPv4 before IPv6, then the smallest metric.
///
/// # Errors
/// The kernel gave no consistent answer.
pub fn default_route() -> Result<Option<Route>, NetlinkError> {
    for family in [Family::V4, Family::V6] {
        if let Some(route) = best_default(list_routes(family)?) {
            return Ok(Some(route));
        }
    }
    Ok(None)
}

/// The device of the default route and the address that others reach this host by.
///
/// # Errors
/// The kernel gave no consistent answer.
pub fn default_interface() -> Result<Option<DefaultInterface>, NetlinkError> {
    let Some(route) = default_route()? else {
        return Ok(None);
    };
    let link = list_links()?
        .into_iter()
        .find(|link| link.index == route.link_index);
    // The device may have gone since the route was read.
    let Some(link) = link else { return Ok(None) };
    let address = best_address(&route, &list_addresses()?);
    Ok(Some(DefaultInterface { link, address }))
}

fn best_default(routes: Vec<Route>) -> Option<Route> {
    routes
        .into_iter()
        .filter(|route| route.destination.prefix_len() == 0)
        .min_by_key(|route| route.metric)
}

/// What the route itself says, else the first usable address of its device and family, the
/// widest valid first.
fn best_address(route: &Route, addresses: &[Address]) -> Option<IpAddr> {
    route.source.or_else(|| {
        addresses
            .iter()
            .filter(|address| {
                address.link_index == route.link_index
                    && address.is_usable
                    && address.ip().is_ipv4() == route.destination.addr().is_ipv4()
            })
            .min_by_key(|address| match address.scope {
                Scope::Universe => 0,
                Scope::Site => 1,
                Scope::Link | Scope::Host | Scope::Other(_) => 2,
            })
            .map(Address::ip)
    })
}

pub(crate) fn parse(messages: &[RouteNetlinkMessage]) -> Vec<Route> {
    messages
        .iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) => from_message(route),
            _ => None,
        })
        .collect()
}

fn from_message(message: &RouteMessage) -> Option<Route> {
    let RouteMessage {
        header, attributes, ..
    } = message;
    let mut destination = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let mut table = u32::from(header.table);
    let (mut link_index, mut gateway, mut source, mut metric) = (None, None, None, 0);
    for attribute in attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address)?,
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Via(RouteVia::Inet(address)) => gateway = Some((*address).into()),
            RouteAttribute::Via(RouteVia::Inet6(address)) => gateway = Some((*address).into()),
            RouteAttribute::PrefSource(address) => source = ip(address),
            RouteAttribute::Oif(index) => link_index = Some(*index),
            RouteAttribute::Priority(value) => metric = *value,
            // Numbers above 255 do not fit the header.
            RouteAttribute::Table(value) => table = *value,
            RouteAttribute::MultiPath(hops) => {
                let first = hops.first()?;
                link_index = Some(first.interface_index);
                gateway = first
                    .attributes
                    .iter()
                    .find_map(|attribute| match attribute {
                        RouteAttribute::Gateway(address) => ip(address),
                        _ => None,
                    });
            }
            _ => {}
        }
    }
    let wanted =
        header.kind == RouteType::Unicast && table == u32::from(RouteHeader::RT_TABLE_MAIN);
    wanted.then_some(())?;
    Some(Route {
        destination: IpNet::new(destination, header.destination_prefix_length).ok()?,
        link_index: link_index?,
        gateway,
        source,
        metric,
    })
}

const fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkMessage, NetlinkPayload};

    use super::*;

    /// `RTM_NEWROUTE`: default via 10.0.0.1 dev 2 metric 100 src 10.0.0.7, table main.
    const DEFAULT: [u8; 68] = [
        68, 0, 0, 0, 24, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, // header
        2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0, // rtmsg
        8, 0, 15, 0, 254, 0, 0, 0, // table
        8, 0, 6, 0, 100, 0, 0, 0, // metric
        8, 0, 7, 0, 10, 0, 0, 7, // preferred source
        8, 0, 5, 0, 10, 0, 0, 1, // gateway
        8, 0, 4, 0, 2, 0, 0, 0, // device
    ];

    fn parsed(bytes: &[u8]) -> Vec<Route> {
        match NetlinkMessage::deserialize(bytes)
            .expect("netlink")
            .into_parts()
            .1
        {
            NetlinkPayload::InnerMessage(message) => parse(&[message]),
            other => panic!("no message: {other:?}"),
        }
    }

    fn route(metric: u32) -> Route {
        Route {
            destination: "0.0.0.0/0".parse().expect("network"),
            link_index: 2,
            gateway: None,
            source: None,
            metric,
        }
    }

    #[test]
    fn a_default_route_is_read_from_frozen_bytes() {
        let expected = Route {
            gateway: Some("10.0.0.1".parse().expect("address")),
            source: Some("10.0.0.7".parse().expect("address")),
            ..route(100)
        };
        assert_eq!(parsed(&DEFAULT), [expected]);
    }

    #[test]
    fn routes_of_other_tables_and_kinds_do_not_count() {
        let mut other_table = DEFAULT;
        other_table[32] = 7;
        assert_eq!(parsed(&other_table), []);
        let mut local = DEFAULT;
        local[23] = 2;
        assert_eq!(parsed(&local), []);
    }

    #[test]
    fn the_smallest_metric_wins_and_other_destinations_are_no_default() {
        let other = Route {
            destination: "10.0.0.0/8".parse().expect("network"),
            ..route(0)
        };
        assert_eq!(
            best_default(vec![route(100), other.clone(), route(50)]),
            Some(route(50))
        );
        assert_eq!(best_default(vec![other]), None);
    }

    #[test]
    fn without_a_preferred_source_the_widest_usable_address_is_taken() {
        let address = |network: &str, scope, is_usable, link_index| Address {
            link_index,
            network: network.parse().expect("network"),
            scope,
            is_usable,
        };
        let addresses = [
            address("169.254.1.1/16", Scope::Link, true, 2),
            address("10.0.0.9/24", Scope::Universe, false, 2),
            address("10.0.0.8/24", Scope::Universe, true, 3),
            address("2001:db8::1/64", Scope::Universe, true, 2),
            address("10.0.0.7/24", Scope::Universe, true, 2),
        ];
        assert_eq!(best_address(&route(0), &addresses), "10.0.0.7".parse().ok());
        assert_eq!(
            best_address(&route(0), &addresses[..1]),
            "169.254.1.1".parse().ok()
        );
        assert_eq!(best_address(&route(0), &[]), None);
    }
}
