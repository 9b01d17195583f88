//! Flows of UDP that a changed mapping does not reach. The kernel looks a mapping up for the first
//! packet of a flow only. A UDP client that goes on sending from one port keeps its flow alive, so
//! it would send to the former allocation for ever.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use netlink_sys::protocols::NETLINK_NETFILTER;
use rustix::io::Errno;

use super::Mapping;
use crate::addresses::list_addresses;
use crate::batch::{self, Step};
use crate::conntrack::{ConntrackMessage, Flow};
use crate::request::{NetlinkError, dump, open};

/// Flows that are forgotten with one request; a request for one has 80 bytes.
const FLOWS_PER_BATCH: usize = 100;

/// Makes the kernel forget the UDP flows to mapped ports that do not lead where the mappings say,
/// in the namespace of the calling thread. Call it after [`add`](super::Table::add): the next
/// packet of each such client reaches the new allocation. Returns how many flows there were. Flows
/// of TCP end by themselves.
///
/// # Errors
/// The kernel refused, which it does without CAP_NET_ADMIN, or where it has no conntrack over
/// netlink. The mappings are valid all the same.
pub fn forget_flows(mappings: &[Mapping]) -> Result<usize, NetlinkError> {
    let flows = dump("list tracked flows", &ConntrackMessage::list_udp())?;
    let locals: HashSet<IpAddr> = list_addresses()?
        .iter()
        .map(|address| address.ip())
        .collect();
    let is_local =
        |address: Ipv4Addr| address.is_loopback() || locals.contains(&IpAddr::V4(address));
    let stale: Vec<Step<ConntrackMessage>> = flows
        .iter()
        .filter_map(ConntrackMessage::flow)
        .filter(|flow| is_stale(flow, mappings, is_local))
        .map(|flow| Step {
            // It ended meanwhile.
            tolerated: Some(Errno::NOENT),
            ..Step::new("forget a flow", ConntrackMessage::delete(&flow))
        })
        .collect();
    if !stale.is_empty() {
        let socket = open(NETLINK_NETFILTER)?;
        for steps in stale.chunks(FLOWS_PER_BATCH) {
            batch::run(&socket, steps)?;
        }
    }
    Ok(stale.len())
}

/// Whether a flow to a mapped port leads elsewhere. The mapping of one address comes before that of
/// every local address, as in the rules.
fn is_stale(flow: &Flow, mappings: &[Mapping], is_local: impl Fn(Ipv4Addr) -> bool) -> bool {
    let to = flow.original;
    let of_port = || {
        mappings
            .iter()
            .filter(|mapping| mapping.port == to.destination_port)
    };
    let exact = of_port().find(|mapping| mapping.host == Some(to.destination));
    let wide = || of_port().find(|mapping| mapping.host.is_none() && is_local(to.destination));
    exact.or_else(wide).is_some_and(|mapping| {
        (flow.reply.source, flow.reply.source_port) != (mapping.address, mapping.to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::Tuple;

    const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
    const REMOTE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

    fn allocation(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(172, 26, 64, last)
    }

    fn mapping(host: Option<Ipv4Addr>, port: u16, last: u8) -> Mapping {
        Mapping {
            host,
            port,
            address: allocation(last),
            to: 80,
        }
    }

    /// A flow to an address and a port that leads to this address and port.
    fn flow(destination: (Ipv4Addr, u16), end: (Ipv4Addr, u16)) -> Flow {
        let original = Tuple {
            source: REMOTE,
            source_port: 5000,
            destination: destination.0,
            destination_port: destination.1,
        };
        let reply = Tuple {
            source: end.0,
            source_port: end.1,
            destination: REMOTE,
            destination_port: 5000,
        };
        Flow::for_tests(original, reply)
    }

    #[test]
    fn flows_to_another_end_are_stale_and_others_are_not() {
        let mappings = [mapping(None, 20000, 5), mapping(Some(OWN), 20001, 6)];
        let is_local = |address| address == OWN;
        for (destination, end, expected) in [
            ((OWN, 20000), (allocation(5), 80), false),
            ((OWN, 20000), (allocation(4), 80), true),
            ((OWN, 20000), (allocation(5), 81), true),
            ((OWN, 20000), (OWN, 20000), true), // before there was a mapping
            ((OWN, 20001), (allocation(6), 80), false),
            ((OWN, 20001), (allocation(5), 80), true),
            ((OWN, 20002), (OWN, 20002), false), // not mapped
            ((REMOTE, 20000), (REMOTE, 20000), false), // not to this host
            ((REMOTE, 20001), (REMOTE, 20001), false),
        ] {
            let flow = flow(destination, end);
            assert_eq!(is_stale(&flow, &mappings, is_local), expected, "{flow:?}");
        }
    }

    #[test]
    fn mapping_of_one_address_comes_before_that_of_every_address() {
        let mappings = [mapping(None, 20000, 5), mapping(Some(OWN), 20000, 6)];
        let to = |last| flow((OWN, 20000), (allocation(last), 80));
        assert!(!is_stale(&to(6), &mappings, |_| true));
        assert!(is_stale(&to(5), &mappings, |_| true));
    }
}
