//! One port of the host and the allocation that gets its traffic.

use std::fmt::{self, Display, Formatter};
use std::net::Ipv4Addr;

/// A port of the host that is mapped to a port of an allocation, for TCP and for UDP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mapping {
    /// The host's address; `None` for every local address, 127.0.0.1 included.
    pub host: Option<Ipv4Addr>,
    /// The host's port.
    pub port: u16,
    /// The allocation's address.
    pub address: Ipv4Addr,
    /// The port inside.
    pub to: u16,
}

impl Mapping {
    /// Whether both claim the same port of the same host address.
    pub(super) fn has_same_key(&self, other: &Self) -> bool {
        (self.host, self.port) == (other.host, other.port)
    }
}

impl Display for Mapping {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            port,
            address,
            to,
        } = self;
        match host {
            Some(host) => write!(formatter, "{host}:{port} -> {address}:{to}"),
            None => write!(formatter, "*:{port} -> {address}:{to}"),
        }
    }
}

/// A protocol with ports. A mapping is one element for each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    pub(crate) const ALL: [Self; 2] = [Self::Tcp, Self::Udp];
}

/// An element of one of the table's maps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Element {
    pub(crate) protocol: Protocol,
    pub(crate) mapping: Mapping,
}

/// The elements of mappings, each once.
pub(crate) fn elements(mappings: &[Mapping]) -> Vec<Element> {
    let mut elements: Vec<Element> = mappings
        .iter()
        .flat_map(|&mapping| Protocol::ALL.map(|protocol| Element { protocol, mapping }))
        .collect();
    elements.sort_unstable();
    elements.dedup();
    elements
}
