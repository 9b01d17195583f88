//! How many connections there are, and how many of one client: a client that takes all of them
//! keeps everyone else out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// The connections of each address. Clones share it; it is as long as there are connections.
#[derive(Clone, Debug)]
pub(super) struct Places {
    of: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    per_address_max: usize,
}

/// One connection's place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    address: IpAddr,
}

impl Places {
    pub(super) fn new(per_address_max: usize) -> Self {
        Self {
            of: Arc::default(),
            per_address_max,
        }
    }

    /// A place for a connection from `address`; `None` where it has as many as it may.
    pub(super) fn take(&self, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let mut of = self.of.lock();
        let count = of.entry(address).or_default();
        if *count >= self.per_address_max {
            return None;
        }
        *count += 1;
        drop(of);
        Some(Place {
            places: self.clone(),
            address,
        })
    }
}

impl Place {
    /// The client's address.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut of = self.places.of.lock();
        if let Some(count) = of.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                of.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let places = Places::new(2);
        let one = IpAddr::from([10, 0, 0, 1]);
        let first = places.take(one).expect("a place");
        let second = places.take("::ffff:10.0.0.1".parse().expect("an address"));
        assert!(second.is_some());
        assert!(places.take(one).is_none(), "it has two");
        assert!(places.take(IpAddr::from([10, 0, 0, 2])).is_some());
        drop(first);
        assert!(places.take(one).is_some());
        drop(second);
        assert!(
            places.of.lock().is_empty(),
            "nothing is kept of who is gone"
        );
    }
}
