//! The addresses and names of one node's bridge networks.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// Shortest prefix of a subnet: a whole private class A network.
const PREFIX_MIN: u8 = 8;
/// Longest prefix of a subnet: 13 addresses for allocations.
const PREFIX_MAX: u8 = 28;

/// Networks that are routed inside one organization only (RFC 1918, RFC 6598, RFC 2544).
const PRIVATE: [(Ipv4Addr, u8); 5] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
];

/// Why a subnet cannot be used for allocations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The subnet is too large or too small.
    #[error(
        "ipv4_subnet {subnet} has a prefix of {} bits: use one of {PREFIX_MIN} to {PREFIX_MAX} \
         bits, for example 172.26.64.0/20",
        subnet.prefix_len()
    )]
    Prefix {
        /// The refused subnet.
        subnet: Ipv4Net,
    },
    /// The address is not the first one of its subnet.
    #[error("ipv4_subnet {subnet} is not the first address of its network: write {}", subnet.trunc())]
    HostBits {
        /// The refused subnet.
        subnet: Ipv4Net,
    },
    /// The subnet belongs to the internet, to loopback, to multicast, ...
    #[error(
        "ipv4_subnet {subnet} is not in a private network: use a part of 10.0.0.0/8, \
         172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 or 198.18.0.0/15"
    )]
    NotPrivate {
        /// The refused subnet.
        subnet: Ipv4Net,
    },
}

/// The subnet and the names of one node's bridge networks. The tag keeps the nodes of one host
/// apart: it is part of every name that the host sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    subnet: Ipv4Net,
    tag: u16,
}

impl Layout {
    /// A layout for a subnet with a prefix of 8 to 28 bits in a private network. `tag` is four hex
    /// digits of the node's id.
    ///
    /// # Errors
    /// The subnet cannot be used; the text says which one can.
    pub fn new(subnet: Ipv4Net, tag: u16) -> Result<Self, LayoutError> {
        if !(PREFIX_MIN..=PREFIX_MAX).contains(&subnet.prefix_len()) {
            return Err(LayoutError::Prefix { subnet });
        }
        if subnet.trunc() != subnet {
            return Err(LayoutError::HostBits { subnet });
        }
        let is_private = PRIVATE.iter().any(|(network, prefix)| {
            Ipv4Net::new(*network, *prefix).is_ok_and(|private| private.contains(&subnet))
        });
        if !is_private {
            return Err(LayoutError::NotPrivate { subnet });
        }
        Ok(Self { subnet, tag })
    }

    /// The name of the nftables table, of family `inet`: `drover_1a2b`.
    #[must_use]
    pub fn table(&self) -> String {
        format!("drover_{:04x}", self.tag)
    }

    /// The beginning of the name of every link of this layout: `dv1a2b`.
    #[must_use]
    pub fn link_prefix(&self) -> String {
        format!("dv{:04x}", self.tag)
    }

    /// The name of the host's end of the link to `address`: `dv1a2bac1a4005` for 172.26.64.5.
    /// 14 characters; the kernel's limit is 15.
    #[must_use]
    pub fn link_name(&self, address: Ipv4Addr) -> String {
        format!("{}{:08x}", self.link_prefix(), address.to_bits())
    }

    /// The address that a link's name stands for, if the link is one of this layout.
    #[must_use]
    pub fn address_of(&self, link_name: &str) -> Option<Ipv4Addr> {
        let (tag, address) = parse_link_name(link_name)?;
        (tag == self.tag && self.subnet.contains(&address)).then_some(address)
    }

    /// The tag of another node, if a link is that node's and its address is in this subnet.
    pub(super) fn tag_of_other_node(&self, link_name: &str) -> Option<u16> {
        let (tag, address) = parse_link_name(link_name)?;
        (tag != self.tag && self.subnet.contains(&address)).then_some(tag)
    }

    /// The host's own address in the subnet, the first one: 172.26.64.1.
    #[must_use]
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.subnet.network().to_bits() + 1)
    }

    /// The subnet.
    #[must_use]
    pub const fn subnet(&self) -> Ipv4Net {
        self.subnet
    }

    /// Whether `address` may be an allocation's: in the subnet and neither its first two addresses
    /// (network, gateway) nor its last one (broadcast).
    #[must_use]
    pub fn is_assignable(&self, address: Ipv4Addr) -> bool {
        self.gateway() < address && address < self.subnet.broadcast()
    }
}

/// The tag and the address in the name of a node's link: `dv`, four and eight hex digits.
fn parse_link_name(name: &str) -> Option<(u16, Ipv4Addr)> {
    let digits = name.strip_prefix("dv")?;
    let is_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    (digits.len() == 12 && digits.bytes().all(is_hex)).then_some(())?;
    let tag = u16::from_str_radix(digits.get(..4)?, 16).ok()?;
    let bits = u32::from_str_radix(digits.get(4..)?, 16).ok()?;
    Some((tag, Ipv4Addr::from_bits(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str) -> Ipv4Net {
        text.parse().expect("a network")
    }

    fn layout() -> Layout {
        Layout::new(subnet("172.26.64.0/20"), 0x1a2b).expect("a layout")
    }

    #[test]
    fn names_carry_the_tag_and_the_address() {
        let address = Ipv4Addr::new(172, 26, 64, 5);
        assert_eq!(layout().table(), "drover_1a2b");
        assert_eq!(layout().link_name(address), "dv1a2bac1a4005");
        assert_eq!(layout().gateway(), Ipv4Addr::new(172, 26, 64, 1));
        let low = Layout::new(subnet("10.0.0.0/8"), 7).expect("a layout");
        assert_eq!(low.link_name(Ipv4Addr::new(10, 0, 0, 2)), "dv00070a000002");
    }

    #[test]
    fn link_names_are_read_back_and_others_are_not_ours() {
        let address = Ipv4Addr::new(172, 26, 79, 254);
        assert_eq!(
            layout().address_of(&layout().link_name(address)),
            Some(address)
        );
        for other in [
            "dv1a2cac1a4005",  // another tag
            "dv1a2b0a000005",  // another subnet
            "dv1a2bac1a400",   // short
            "dv1a2bac1a40050", // long
            "dv1a2bAC1A4005",  // as we never write it
            "dv1a2b+c1a4005",
            "dv1a2b",
            "eth0",
            "",
        ] {
            assert_eq!(layout().address_of(other), None, "{other}");
        }
    }

    #[test]
    fn unusable_subnets_are_refused_with_a_text_that_says_what_to_do() {
        for (text, expected) in [
            ("10.0.0.0/7", "to 28 bits, for example 172.26.64.0/20"),
            ("10.0.0.0/29", "use one of 8 to 28 bits"),
            ("172.26.64.5/20", "write 172.26.64.0/20"),
            ("8.8.0.0/16", "use a part of 10.0.0.0/8"),
            ("127.0.0.0/8", "is not in a private network"),
            ("169.254.0.0/16", "is not in a private network"),
            ("224.0.0.0/8", "is not in a private network"),
        ] {
            let refused = Layout::new(subnet(text), 1).map(|_| ());
            let error = refused.expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        }
        for text in ["10.0.0.0/8", "192.168.1.0/28", "100.64.0.0/10"] {
            assert!(Layout::new(subnet(text), 1).is_ok(), "{text}");
        }
    }

    #[test]
    fn network_gateway_and_broadcast_are_not_assignable() {
        let small = Layout::new(subnet("10.1.2.0/28"), 1).expect("a layout");
        let assignable: Vec<u8> = (0..=20)
            .filter(|last| small.is_assignable(Ipv4Addr::new(10, 1, 2, *last)))
            .collect();
        assert_eq!(assignable, Vec::from_iter(2..=14));
    }
}
