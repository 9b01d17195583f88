//! Claims: things that a node has only once.
//!
//! Ports and cores are sorted lists with repeats, not bitmaps: a node has tens of them, and a row
//! of the node columns is copied whenever its chunk is.

use std::net::IpAddr;

/// Ports on the host and whole cores, which can be had only once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Claims {
    /// Ports of the default host network: on all of its addresses.
    pub ports: Numbers,
    /// Ports of other host networks.
    pub host_ports: HostPorts,
    /// Cores.
    pub cores: Numbers,
}

/// Sorted numbers: ports, cores.
pub type Numbers = Sorted<u16>;
/// Sorted ports, each on one address.
pub type HostPorts = Sorted<(IpAddr, u16)>;

impl Claims {
    /// Adds a port on the address of a host network; `None` is the default one.
    pub(crate) fn insert_port(&mut self, address: Option<IpAddr>, port: u32) {
        // 0 is a dynamic port that was not filled in; above 65535 there are none.
        let Some(port) = u16::try_from(port).ok().filter(|port| *port != 0) else {
            return;
        };
        match address {
            None => self.ports.insert(port),
            Some(address) => self.host_ports.insert((address, port)),
        }
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.ports.add(&other.ports);
        self.host_ports.add(&other.host_ports);
        self.cores.add(&other.cores);
    }

    /// Removes each of `other` once.
    pub fn subtract(&mut self, other: &Self) {
        self.ports.subtract(&other.ports);
        self.host_ports.subtract(&other.host_ports);
        self.cores.subtract(&other.cores);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.host_ports.is_empty() && self.cores.is_empty()
    }
}

/// A sorted list, repeats allowed: removing one of two equal claims must leave the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sorted<T>(Vec<T>);

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord + Copy> Sorted<T> {
    /// Adds a number.
    pub fn insert(&mut self, number: T) {
        let offset = self.0.partition_point(|present| *present <= number);
        self.0.insert(offset, number);
    }

    /// Removes a number once; whether it was there.
    pub fn remove(&mut self, number: T) -> bool {
        match self.0.binary_search(&number) {
            Ok(offset) => {
                self.0.remove(offset);
                true
            }
            Err(_) => false,
        }
    }

    /// Whether the number is in it.
    pub fn contains(&self, number: T) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// The numbers in order, repeats included.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
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
    pub fn repeated(&self) -> Option<T> {
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

impl<T: Ord> FromIterator<T> for Sorted<T> {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Self {
        let mut numbers: Vec<T> = numbers.into_iter().collect();
        numbers.sort_unstable();
        Self(numbers)
    }
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
}
