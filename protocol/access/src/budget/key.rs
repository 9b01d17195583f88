//! Keys of budgets: requests of one key share its buckets.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use protocol_model::AllocId;

/// The caller that a request is charged to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// A token, by its accessor.
    Accessor(Arc<str>),
    /// A workload: all allocations of a job share one budget.
    Job { namespace: Arc<str>, job: Arc<str> },
    /// A task, for the refused credentials of requests that its node forwards.
    Task { alloc: AllocId, task: Arc<str> },
    /// A network, made by [`Key::address`].
    Network(IpAddr),
}

impl Key {
    /// The network of an address: the address itself in IPv4, its /64 in IPv6, since a host draws
    /// from a whole /64.
    pub fn address(address: IpAddr) -> Self {
        Self::Network(match address.to_canonical() {
            IpAddr::V6(six) => {
                let network = six.to_bits() & (u128::MAX << 64);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            four => four,
        })
    }
}
