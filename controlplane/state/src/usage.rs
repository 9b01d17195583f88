//! What an allocation takes of its node, and what a node has: the two sides of the fit.
//!
//! Ports and cores are sorted lists with repeats, not bitmaps: a node has tens of them, and a row
//! of the node columns is copied whenever its chunk is.

use std::sync::Arc;

use protocol_model::{AllocatedResources, Node};

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
                    claims.insert_port(port.value);
                }
            }
        }
        // The list of ports repeats those of the group's networks; it wins where both are there.
        if resources.shared.ports.is_empty() {
            for network in &resources.shared.networks {
                for port in network.ports() {
                    claims.insert_port(port.value);
                }
            }
        } else {
            for port in &resources.shared.ports {
                claims.insert_port(u32::from(port.value));
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

/// What can be had only once: ports on the host, whole cores.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Claims {
    /// Ports.
    pub ports: Numbers,
    /// Cores.
    pub cores: Numbers,
}

impl Claims {
    fn insert_port(&mut self, port: u32) {
        // 0 is a dynamic port that was not filled in; above 65535 there are none.
        if let Ok(port) = u16::try_from(port)
            && port != 0
        {
            self.ports.insert(port);
        }
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.ports.add(&other.ports);
        self.cores.add(&other.cores);
    }

    /// Removes each of `other` once.
    pub fn subtract(&mut self, other: &Self) {
        self.ports.subtract(&other.ports);
        self.cores.subtract(&other.cores);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.ports.0.is_empty() && self.cores.0.is_empty()
    }
}

/// A sorted list of small numbers, repeats allowed: removing one of two equal claims must leave
/// the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numbers(Vec<u16>);

impl Numbers {
    /// Adds a number.
    pub fn insert(&mut self, number: u16) {
        let offset = self.0.partition_point(|present| *present <= number);
        self.0.insert(offset, number);
    }

    /// Removes a number once; whether it was there.
    pub fn remove(&mut self, number: u16) -> bool {
        match self.0.binary_search(&number) {
            Ok(offset) => {
                self.0.remove(offset);
                true
            }
            Err(_) => false,
        }
    }

    /// Whether the number is in it.
    pub fn contains(&self, number: u16) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// The numbers in order, repeats included.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().copied()
    }

    /// How many, repeats included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number that is in it twice.
    pub fn repeated(&self) -> Option<u16> {
        self.0
            .windows(2)
            .find(|pair| pair[0] == pair[1])
            .map(|pair| pair[0])
    }

    fn add(&mut self, other: &Self) {
        for number in &other.0 {
            self.insert(*number);
        }
    }

    fn subtract(&mut self, other: &Self) {
        for number in &other.0 {
            self.remove(*number);
        }
    }
}

impl FromIterator<u16> for Numbers {
    fn from_iter<I: IntoIterator<Item = u16>>(numbers: I) -> Self {
        let mut numbers: Vec<u16> = numbers.into_iter().collect();
        numbers.sort_unstable();
        Self(numbers)
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
                reserved_ports: parse_ports(&reserved.networks.reserved_host_ports),
                cores: resources.cpu.reservable_cpu_cores.iter().copied().collect(),
                min_dynamic_port: or_default(resources.min_dynamic_port, MIN_DYNAMIC_PORT),
                max_dynamic_port: or_default(resources.max_dynamic_port, MAX_DYNAMIC_PORT),
            }),
        }
    }
}

/// `22,80,8500-8600` as numbers. What is no port or range is skipped: the node's own check of its
/// configuration is the place to complain, and a fact must not stop the state.
fn parse_ports(text: &str) -> Numbers {
    let mut ports = std::collections::BTreeSet::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            ports.extend(first..=last);
        }
    }
    Numbers(ports.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_equal_claims_stays_when_the_other_goes() {
        let mut numbers: Numbers = [80, 443, 80].into_iter().collect();
        assert_eq!(numbers.repeated(), Some(80));
        assert!(numbers.remove(80));
        assert!(numbers.contains(80));
        assert!(numbers.remove(80));
        assert!(!numbers.remove(80));
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [443]);
    }

    #[test]
    fn reserved_ports_are_numbers_and_ranges_and_nonsense_is_skipped() {
        let ports = parse_ports("22, 80,8500-8502,x,9-3,70000");
        assert_eq!(ports.iter().collect::<Vec<_>>(), [22, 80, 8500, 8501, 8502]);
    }
}
