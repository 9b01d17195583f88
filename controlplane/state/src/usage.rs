//! What an allocation takes of its node, and what a node has: the two sides of the fit.

use std::net::IpAddr;
use std::sync::Arc;

use protocol_model::canonical::defaults::HOST_NETWORK;
use protocol_model::{AllocatedResources, Node, NodeResources};

use crate::claims::{Claims, HostPorts, Numbers};

/// What allocations take of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Processor time, MHz.
    pub cpu: i64,
    /// Memory, MiB.
    pub memory_mb: i64,
    /// Disk, MiB.
    pub disk_mb: i64,
    /// Ports on the host and whole cores. Shared: rows are copied more often than claims change.
    pub claims: Arc<Claims>,
}

impl Usage {
    /// What these resources take. Negative numbers, which only a damaged plan can have, count as 0.
    pub fn of(resources: &AllocatedResources) -> Self {
        let mut usage = Self {
            disk_mb: resources.shared.disk_mb.max(0),
            ..Self::default()
        };
        let mut claims = Claims::default();
        for task in resources.tasks.values() {
            usage.cpu = usage.cpu.saturating_add(task.cpu.cpu_shares.max(0));
            usage.memory_mb = usage.memory_mb.saturating_add(task.memory.memory_mb.max(0));
            for core in &task.cpu.reserved_cores {
                claims.cores.insert(*core);
            }
            for network in &task.networks {
                for port in network.ports() {
                    claims.insert_port(None, port.value);
                }
            }
        }
        let networks = &resources.shared.networks;
        // The list of ports repeats those of the group's networks; it wins where both are there.
        if resources.shared.ports.is_empty() {
            for port in networks.iter().flat_map(|network| network.ports()) {
                claims.insert_port(None, port.value);
            }
        } else {
            let named = networks.iter().flat_map(|network| network.ports());
            let named: Vec<_> = named.filter(|port| !port.is_on_default()).collect();
            for port in &resources.shared.ports {
                let is_named = named.iter().any(|named| named.label == port.label);
                let address = port.host_ip.parse().ok().filter(|_| is_named);
                claims.insert_port(address, u32::from(port.value));
            }
        }
        usage.claims = Arc::new(claims);
        usage
    }

    /// This and `other` together.
    pub fn add(&mut self, other: &Self) {
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory_mb = self.memory_mb.saturating_add(other.memory_mb);
        self.disk_mb = self.disk_mb.saturating_add(other.disk_mb);
        if !other.claims.is_empty() {
            Arc::make_mut(&mut self.claims).add(&other.claims);
        }
    }

    /// This without `other`, which is a part of it.
    pub fn subtract(&mut self, other: &Self) {
        self.cpu = self.cpu.saturating_sub(other.cpu);
        self.memory_mb = self.memory_mb.saturating_sub(other.memory_mb);
        self.disk_mb = self.disk_mb.saturating_sub(other.disk_mb);
        if !other.claims.is_empty() {
            Arc::make_mut(&mut self.claims).subtract(&other.claims);
        }
    }
}

/// The lowest port that is handed out on request where the node does not say (Nomad's default).
pub const MIN_DYNAMIC_PORT: u16 = 20_000;
/// The highest port that is handed out on request where the node does not say (Nomad's default).
pub const MAX_DYNAMIC_PORT: u16 = 32_000;

/// What a node has for allocations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// Processor time, MHz.
    pub cpu: i64,
    /// Memory, MiB.
    pub memory_mb: i64,
    /// Disk, MiB.
    pub disk_mb: i64,
    /// What is rarely looked at and never changes with allocations.
    pub fixed: Arc<FixedCapacity>,
}

/// The part of a node's capacity that is not a sum.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FixedCapacity {
    /// Ports that are not for allocations, without repeats.
    pub reserved_ports: Numbers,
    /// Ports of host networks that are not for allocations.
    pub reserved_host_ports: HostPorts,
    /// The addresses of the default host network.
    pub default_addresses: Vec<IpAddr>,
    /// Cores that may be reserved whole.
    pub cores: Numbers,
    /// The lowest port handed out on request.
    pub min_dynamic_port: u16,
    /// The highest port handed out on request.
    pub max_dynamic_port: u16,
}

impl Capacity {
    /// What this node has, less what it reserves.
    pub fn of(node: &Node) -> Self {
        let resources = &node.node_resources;
        let reserved = &node.reserved_resources;
        let or_default = |port: u16, default: u16| if port == 0 { default } else { port };
        Self {
            cpu: resources
                .cpu
                .cpu_shares
                .saturating_sub(reserved.cpu.cpu_shares)
                .max(0),
            memory_mb: resources
                .memory
                .memory_mb
                .saturating_sub(reserved.memory.memory_mb)
                .max(0),
            disk_mb: resources
                .disk
                .disk_mb
                .saturating_sub(reserved.disk.disk_mb)
                .max(0),
            fixed: Arc::new(FixedCapacity {
                reserved_ports: parse_ports(&reserved.networks.reserved_host_ports).collect(),
                reserved_host_ports: reserved_host_ports(resources),
                default_addresses: addresses_of_default(resources),
                cores: resources.cpu.reservable_cpu_cores.iter().copied().collect(),
                min_dynamic_port: or_default(resources.min_dynamic_port, MIN_DYNAMIC_PORT),
                max_dynamic_port: or_default(resources.max_dynamic_port, MAX_DYNAMIC_PORT),
            }),
        }
    }
}

impl FixedCapacity {
    /// Whether a port of the default host network is somebody's, or is not for allocations.
    pub fn is_taken(&self, used: &Claims, port: u16) -> bool {
        let on_address = |address: &IpAddr| {
            let claim = (*address, port);
            self.reserved_host_ports.contains(claim) || used.host_ports.contains(claim)
        };
        self.reserved_ports.contains(port)
            || used.ports.contains(port)
            || self.default_addresses.iter().any(on_address)
    }

    /// The same for the address of another host network, which may be one of the default's.
    pub fn is_taken_on(&self, used: &Claims, address: IpAddr, port: u16) -> bool {
        if self.default_addresses.contains(&address) {
            return self.is_taken(used, port);
        }
        self.reserved_ports.contains(port)
            || self.reserved_host_ports.contains((address, port))
            || used.host_ports.contains((address, port))
    }

    /// Whether two allocations with these claims cannot be there together for a port of theirs.
    pub fn collide(&self, one: &Claims, other: &Claims) -> bool {
        let nothing_reserved = Self {
            default_addresses: self.default_addresses.clone(),
            ..Self::default()
        };
        let mut ports = one.ports.iter();
        let mut host_ports = one.host_ports.iter();
        ports.any(|port| nothing_reserved.is_taken(other, port))
            || host_ports.any(|(address, port)| nothing_reserved.is_taken_on(other, address, port))
    }
}

fn reserved_host_ports(resources: &NodeResources) -> HostPorts {
    let networks = resources.node_networks.iter();
    let addresses = networks.flat_map(|network| &network.addresses);
    let ports = addresses.filter_map(|address| {
        let ip: IpAddr = address.address.parse().ok()?;
        Some(parse_ports(&address.reserved_ports).map(move |port| (ip, port)))
    });
    ports.flatten().collect()
}

fn addresses_of_default(resources: &NodeResources) -> Vec<IpAddr> {
    let listed = resources.addresses(HOST_NETWORK);
    let listed = listed.filter_map(|it| it.address.parse().ok());
    // All that nodes of older releases send.
    let networks = resources.networks.iter().map(|network| &network.ip);
    let first = networks.filter_map(|ip| ip.parse().ok()).next();
    let mut addresses: Vec<IpAddr> = listed.chain(first).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// `22,80,8500-8600` as numbers, without repeats. Words that are no port or range are skipped: the
/// node's own check of its configuration is the place to complain, and a fact must not stop the
/// state.
fn parse_ports(text: &str) -> impl Iterator<Item = u16> + use<> {
    let mut ports = std::collections::BTreeSet::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            ports.extend(first..=last);
        }
    }
    ports.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_are_numbers_and_ranges_and_nonsense_is_skipped() {
        let ports = parse_ports("22, 80,8500-8502,x,9-3,70000");
        assert_eq!(ports.collect::<Vec<_>>(), [22, 80, 8500, 8501, 8502]);
    }
}
