//! The addresses of a subnet that are in use.

use std::net::Ipv4Addr;

use super::Layout;

/// Addresses in use, one bit each: 512 bytes for a /20, 2 MiB for a /8. It does no I/O: the caller
/// claims at start the addresses that links and pins still have.
#[derive(Debug, Clone)]
pub struct AddressPool {
    layout: Layout,
    used: Vec<u64>,
    /// Offset in the subnet of the address that was given last.
    last: u32,
}

impl AddressPool {
    /// A pool in which every address is free.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let mut pool = Self {
            layout: *layout,
            used: Vec::new(),
            last: 0,
        };
        let words = pool.size().div_ceil(u64::BITS);
        pool.used = vec![0; words as usize];
        pool
    }

    /// The lowest free address above the last given one, from the beginning after the end: an
    /// address is not given again at once, so that late packets do not reach its next owner.
    /// `None` when all are in use.
    pub fn take(&mut self) -> Option<Ipv4Addr> {
        let size = self.size();
        let first = self.free_from(self.last + 1, size);
        let offset = first.or_else(|| self.free_from(0, self.last + 1))?;
        let address = self.address(offset);
        self.set(offset);
        self.last = offset;
        Some(address)
    }

    /// Marks an address as used. `false`: it is used already, or no allocation may have it.
    pub fn claim(&mut self, address: Ipv4Addr) -> bool {
        match self.offset(address) {
            Some(offset) if !self.is_used(offset) => {
                self.set(offset);
                true
            }
            _ => false,
        }
    }

    /// Marks an address as free. Nothing happens when it is free already.
    pub fn give_back(&mut self, address: Ipv4Addr) {
        if let Some(offset) = self.offset(address) {
            self.used[(offset / u64::BITS) as usize] &= !bit(offset);
        }
    }

    fn size(&self) -> u32 {
        // At least 8 bits of prefix: at most 2^24 addresses.
        1 << (32 - u32::from(self.layout.subnet().prefix_len()))
    }

    fn free_from(&self, from: u32, to: u32) -> Option<u32> {
        let mut offset = from;
        while offset < to {
            // A word without a free bit is passed over as a whole.
            if self.used[(offset / u64::BITS) as usize] == u64::MAX {
                offset = (offset / u64::BITS + 1) * u64::BITS;
            } else if !self.is_used(offset) && self.layout.is_assignable(self.address(offset)) {
                return Some(offset);
            } else {
                offset += 1;
            }
        }
        None
    }

    fn address(&self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.layout.subnet().network().to_bits() + offset)
    }

    fn offset(&self, address: Ipv4Addr) -> Option<u32> {
        let offset = address
            .to_bits()
            .checked_sub(self.layout.subnet().network().to_bits())?;
        self.layout.is_assignable(address).then_some(offset)
    }

    fn is_used(&self, offset: u32) -> bool {
        self.used[(offset / u64::BITS) as usize] & bit(offset) != 0
    }

    fn set(&mut self, offset: u32) {
        self.used[(offset / u64::BITS) as usize] |= bit(offset);
    }
}

const fn bit(offset: u32) -> u64 {
    1 << (offset % u64::BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn pool(subnet: &str) -> AddressPool {
        let subnet = subnet.parse().expect("a network");
        AddressPool::new(&Layout::new(subnet, 1).expect("a layout"))
    }

    fn last_byte(address: Option<Ipv4Addr>) -> Option<u8> {
        address.map(|address| address.octets()[3])
    }

    #[test]
    fn every_address_but_network_gateway_and_broadcast_is_given_once() {
        for (subnet, count) in [
            ("10.0.0.0/28", 13),
            ("10.0.0.0/24", 253),
            ("10.0.0.0/20", 4093),
        ] {
            let mut pool = pool(subnet);
            let given: BTreeSet<_> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!(given.len(), count, "{subnet}");
            assert!(
                given
                    .iter()
                    .all(|address| pool.layout.is_assignable(*address))
            );
            assert_eq!(pool.take(), None);
        }
    }

    #[test]
    fn an_address_that_was_given_back_is_not_given_at_once() {
        let mut pool = pool("10.0.0.0/28");
        assert_eq!(last_byte(pool.take()), Some(2));
        pool.give_back(Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(last_byte(pool.take()), Some(3));
        let rest: Vec<_> = std::iter::from_fn(|| last_byte(pool.take())).collect();
        assert_eq!(rest, [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 2]);
        pool.give_back(Ipv4Addr::new(10, 0, 0, 9));
        assert_eq!(last_byte(pool.take()), Some(9));
    }

    #[test]
    fn claimed_addresses_are_passed_over_and_cannot_be_claimed_twice() {
        let mut pool = pool("10.0.0.0/28");
        assert!(pool.claim(Ipv4Addr::new(10, 0, 0, 2)));
        assert!(!pool.claim(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(last_byte(pool.take()), Some(3));
        for other in ["10.0.0.0", "10.0.0.1", "10.0.0.15", "10.0.0.16", "9.9.9.9"] {
            let other = other.parse().expect("an address");
            assert!(!pool.claim(other), "{other}");
            pool.give_back(other);
        }
    }
}
