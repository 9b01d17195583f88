//! Making a routed namespace, and finding those that exist.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::{Layout, plan};
use crate::namespace::{NamespaceError, current, on_a_thread};
use crate::request::{NetlinkError, dump, open};
use crate::{batch, sys};

/// Ports from this one need no privilege; as the driver of containers elsewhere, all of them.
const UNPRIVILEGED_PORT_START: &[u8] = b"0";

/// Why a routed namespace could not be made. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum RoutedError {
    /// No allocation may have this address.
    #[error("address {address} cannot be an allocation's: it is not in {}, or it is its first or last", layout.subnet())]
    Address {
        /// The address.
        address: Ipv4Addr,
        /// The layout that it is not of.
        layout: Layout,
    },
    /// Its link or its route exists: a namespace has it, perhaps one that the kernel has not
    /// removed yet, or another node of this host. Use another address.
    #[error("address {address} is in use on this host")]
    InUse {
        /// The address.
        address: Ipv4Addr,
        /// The refused step.
        #[source]
        source: NetlinkError,
    },
    /// No namespace.
    #[error("cannot make a network namespace for {address}")]
    Namespace {
        /// The address.
        address: Ipv4Addr,
        /// Why.
        #[source]
        source: NamespaceError,
    },
    /// The links could not be made or wired.
    #[error("cannot wire the network namespace of {address}")]
    Wire {
        /// The address.
        address: Ipv4Addr,
        /// Why.
        #[source]
        source: NetlinkError,
    },
    /// The inner end of the links cannot send, although both are up.
    #[error("cannot activate the link of {address}")]
    Activate {
        /// The address.
        address: Ipv4Addr,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A task would not be able to listen on ports below 1024.
    #[error("cannot set net.ipv4.ip_unprivileged_port_start in the network namespace of {address}")]
    PortStart {
        /// The address.
        address: Ipv4Addr,
        /// Why.
        #[source]
        source: Errno,
    },
}

/// A new namespace with a loopback that is up and a device `eth0` that has `address`. The other end
/// of its link is in the namespace of the calling thread, which routes the address to it. The
/// namespace lives as long as the descriptor, a pin or a process in it; with it, the kernel removes
/// link, route and neighbour.
///
/// # Errors
/// The address is in use, or the kernel refused, which it does without CAP_NET_ADMIN and
/// CAP_SYS_ADMIN.
pub fn create_routed(layout: &Layout, address: Ipv4Addr) -> Result<OwnedFd, RoutedError> {
    if !layout.is_assignable(address) {
        return Err(RoutedError::Address {
            address,
            layout: *layout,
        });
    }
    let made = on_a_thread(|| create_here(layout, address));
    made.unwrap_or_else(|source| Err(RoutedError::Namespace { address, source }))
}

/// On a thread of its own, because it stays in the new namespace.
fn create_here(layout: &Layout, address: Ipv4Addr) -> Result<OwnedFd, RoutedError> {
    let wire = |source| match source {
        NetlinkError::Refused {
            source: Errno::EXIST,
            ..
        } => RoutedError::InUse { address, source },
        source => RoutedError::Wire { address, source },
    };
    let activate = |source| RoutedError::Activate { address, source };
    let namespace_error = |source| RoutedError::Namespace { address, source };
    // A socket stays in the namespace that it was opened in: this one remains the host's.
    let host = open(NETLINK_ROUTE).map_err(wire)?;
    sys::unshare_network().map_err(|errno| namespace_error(NamespaceError::Create(errno)))?;
    let namespace = current().map_err(namespace_error)?;

    let answers = batch::run(&host, &plan::create(layout, address, namespace.as_raw_fd()));
    let answers = answers.map_err(wire)?;
    let ends = ends(&answers).ok_or_else(|| {
        wire(NetlinkError::Malformed {
            operation: "read the link",
            reason: "the answer has no link with a name and a number".to_owned(),
        })
    })?;
    // The outer end last: a device that is switched on while its peer is on can send at once.
    let own = open(NETLINK_ROUTE).map_err(wire)?;
    batch::run(&own, &plan::inside(address, ends.inside)).map_err(wire)?;
    batch::run(&host, &plan::outside(layout, address, ends.outside)).map_err(wire)?;
    // The inner end got its carrier by that. The kernel handles this later, on a thread of its own,
    // and until then drops what the device is to send.
    match sys::settle_link(own.as_fd(), plan::INSIDE_NAME) {
        Ok(true) => {}
        Ok(false) => return Err(activate(Errno::NETDOWN)),
        Err(errno) => return Err(activate(errno)),
    }
    allow_all_ports().map_err(|source| RoutedError::PortStart { address, source })?;
    Ok(namespace)
}

/// The numbers of the two ends of a link, each in its own namespace.
#[derive(Debug, PartialEq, Eq)]
struct Ends {
    outside: u32,
    inside: u32,
}

fn ends(answers: &[RouteNetlinkMessage]) -> Option<Ends> {
    let [RouteNetlinkMessage::NewLink(link)] = answers else {
        return None;
    };
    let outside = link.header.index;
    let inside = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::Link(index) => Some(*index),
            _ => None,
        });
    // Kernels before 5.4 leave the peer's number out where it is the same.
    (outside != 0).then(|| Ends {
        outside,
        inside: inside.unwrap_or(outside),
    })
}

/// /proc/sys/net shows the namespace of the thread that opens it.
fn allow_all_ports() -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let path = c"/proc/sys/net/ipv4/ip_unprivileged_port_start";
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    rustix::io::write(file, UNPRIVILEGED_PORT_START).map(drop)
}

/// The addresses of this layout whose links exist in the namespace of the calling thread, in
/// ascending order. A namespace that is going away counts until its link is gone.
///
/// # Errors
/// The kernel gave no consistent answer.
pub fn list_routed(layout: &Layout) -> Result<Vec<Ipv4Addr>, NetlinkError> {
    let mut addresses: Vec<Ipv4Addr> = list_names()?
        .into_iter()
        .filter_map(|(_, name)| layout.address_of(&name))
        .collect();
    addresses.sort_unstable();
    Ok(addresses)
}

/// Numbers and names of all devices, without their statistics.
pub(super) fn list_names() -> Result<Vec<(u32, String)>, NetlinkError> {
    let mut question = LinkMessage::default();
    question.attributes = vec![LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])];
    let links = dump("list links", &RouteNetlinkMessage::GetLink(question))?;
    Ok(links.into_iter().filter_map(name).collect())
}

fn name(message: RouteNetlinkMessage) -> Option<(u32, String)> {
    let RouteNetlinkMessage::NewLink(link) = message else {
        return None;
    };
    let index = link.header.index;
    let mut attributes = link.attributes.into_iter();
    attributes.find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some((index, name)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, attributes: Vec<LinkAttribute>) -> RouteNetlinkMessage {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = attributes;
        RouteNetlinkMessage::NewLink(link)
    }

    #[test]
    fn the_answer_has_the_numbers_of_both_ends() {
        let both = link(7, vec![LinkAttribute::Link(2)]);
        let expected = |outside, inside| Some(Ends { outside, inside });
        assert_eq!(ends(std::slice::from_ref(&both)), expected(7, 2));
        assert_eq!(ends(&[link(2, vec![])]), expected(2, 2));
        assert_eq!(ends(&[link(0, vec![])]), None);
        assert_eq!(ends(&[]), None);
        assert_eq!(ends(&[both.clone(), both]), None);
    }
}
