//! Answers of the kernel and of nft about a node's networks. Both come from the host itself; yet a
//! table may have anybody's elements.

use netns::Layout;
use netns::formats;

use crate::Verdict;

/// A datagram of netlink, as the answer to a dump and to a batch; its first byte is the sequence
/// number that is waited for.
pub fn netlink_answer(data: &[u8]) -> Verdict {
    let (sequence, datagram) = data.split_first().unwrap_or((&0, &[]));
    match formats::netlink_datagram(u32::from(*sequence), datagram) {
        Ok(_) => Verdict::Understood,
        Err(reason) => Verdict::refused_with(reason),
    }
}

/// The output of `nft -j list`.
pub fn nft_description(data: &[u8]) -> Verdict {
    let subnet = "172.26.64.0/20".parse().expect("a network");
    let layout = Layout::new(subnet, 0x1a2b).expect("a layout");
    match formats::nft_description(&layout, &String::from_utf8_lossy(data)) {
        Ok(_) => Verdict::Understood,
        Err(reason) => Verdict::refused_with(reason),
    }
}
