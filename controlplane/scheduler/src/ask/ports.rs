//! Ports on the addresses of one node.
//!
//! A port without a host network is on the default one, whose addresses are taken together. A port
//! of another network is on the first of its addresses on which its number is free.

use std::collections::BTreeMap;
use std::net::IpAddr;

use controlplane_state::{Capacity, Claims};
use protocol_model::Node;
use protocol_model::canonical::defaults::HOST_NETWORK;

use crate::feasible::target;
use crate::ids::Seeded;

/// Where a port is: `None` is the default host network.
pub(super) type Place = Option<IpAddr>;

/// The ports of a node that are free for one more allocation.
#[derive(Debug)]
pub(super) struct Free<'a> {
    node: &'a Node,
    capacity: &'a Capacity,
    used: &'a Claims,
    /// Ports that this allocation has taken so far.
    own: Claims,
}

impl<'a> Free<'a> {
    pub(super) fn new(node: &'a Node, capacity: &'a Capacity, used: &'a Claims) -> Self {
        Self {
            node,
            capacity,
            used,
            own: Claims::default(),
        }
    }

    /// Takes ports whose place and number are known.
    pub(super) fn take(&mut self, claims: &Claims) {
        self.own.add(claims);
    }

    /// Takes a static port of a named host network; `None` where it is taken on each of its
    /// addresses.
    pub(super) fn take_static(&mut self, network: &str, number: u16) -> Option<(IpAddr, u16)> {
        let mut addresses = addresses(self.node, network).into_iter();
        let address = addresses.find(|address| !self.is_taken(Some(*address), number))?;
        self.own.host_ports.insert((address, number));
        Some((address, number))
    }

    /// Chooses a dynamic port: from a random start upwards, so that a port that was just freed is
    /// not taken at once by something else.
    pub(super) fn choose(&mut self, network: &str, ids: &mut Seeded) -> Option<(Place, u16)> {
        let (low, high) = self.range();
        let range = u32::from(high.checked_sub(low)?) + 1;
        let start = ids.below(range);
        let number = |step| low + u16::try_from((start + step) % range).unwrap_or_default();
        let is_free = |place: Place| {
            let mut numbers = (0..range).map(number);
            let number = numbers.find(|number| !self.is_taken(place, *number))?;
            Some((place, number))
        };
        let (place, number) = self.places(network).into_iter().find_map(is_free)?;
        match place {
            None => self.own.ports.insert(number),
            Some(address) => self.own.host_ports.insert((address, number)),
        }
        Some((place, number))
    }

    /// Whether there are enough for dynamic ports on these host networks. It depends on how many
    /// are free on each address and not on which ones are chosen.
    pub(super) fn has_dynamic(&self, networks: &[&str]) -> bool {
        let (low, high) = self.range();
        let fixed = &self.capacity.fixed;
        // Most nodes have far more than anybody could have taken.
        let taken = |claims: &Claims| claims.ports.len() + claims.host_ports.len();
        let reserved = fixed.reserved_ports.len() + fixed.reserved_host_ports.len();
        let most = taken(self.used) + taken(&self.own) + reserved + networks.len();
        if (low..=high).len() >= most {
            let mut networks = networks.iter();
            return networks.all(|network| !self.places(network).is_empty());
        }
        let mut left: BTreeMap<Place, usize> = BTreeMap::new();
        let mut choose = |place: Place| {
            // An address of the default network is part of that one.
            let of_default = |address: &IpAddr| fixed.default_addresses.contains(address);
            let place = place.filter(|address| !of_default(address));
            let count = left.entry(place).or_insert_with(|| {
                let free = (low..=high).filter(|number| !self.is_taken(place, *number));
                free.count()
            });
            *count = count.checked_sub(1)?;
            Some(())
        };
        let mut networks = networks.iter();
        networks.all(|network| {
            let mut places = self.places(network).into_iter();
            places.find_map(&mut choose).is_some()
        })
    }

    fn range(&self) -> (u16, u16) {
        let fixed = &self.capacity.fixed;
        (fixed.min_dynamic_port, fixed.max_dynamic_port)
    }

    /// Where a port of a host network may be, in its node's order.
    fn places(&self, network: &str) -> Vec<Place> {
        if network == HOST_NETWORK {
            return vec![None];
        }
        let addresses = addresses(self.node, network).into_iter();
        addresses.map(Some).collect()
    }

    fn is_taken(&self, place: Place, number: u16) -> bool {
        let fixed = &self.capacity.fixed;
        [self.used, &self.own]
            .into_iter()
            .any(|claims| match place {
                None => fixed.is_taken(claims, number),
                Some(address) => fixed.is_taken_on(claims, address, number),
            })
    }
}

/// The addresses of a host network of `node`, in its order. Its name may be a property of the node:
/// `${meta.network}`.
pub(crate) fn addresses(node: &Node, network: &str) -> Vec<IpAddr> {
    let resolved = target::resolve(network, node);
    let Some(network) = resolved.value() else {
        return Vec::new();
    };
    let addresses = node.node_resources.addresses(network);
    addresses.filter_map(|it| it.address.parse().ok()).collect()
}

/// The address that ports of the default host network are on: the first network's, else the
/// fingerprinted one.
pub(super) fn default_address(node: &Node) -> String {
    let networks = node.node_resources.networks.iter();
    networks
        .map(|network| &network.ip)
        .find(|ip| !ip.is_empty())
        .or_else(|| node.attributes.get("unique.network.ip-address"))
        .cloned()
        .unwrap_or_else(|| "127.0.0.1".to_owned())
}
