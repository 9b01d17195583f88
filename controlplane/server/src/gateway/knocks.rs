//! How often an address was turned away lately. Whoever knocks with a wrong secret or token again
//! and again is answered without looking: each look costs a round of the cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Refusals of one address that are looked at within [`WINDOW`]. A host's nodes knock every few
/// hundred milliseconds at first, and then ever more slowly.
const REFUSALS_MAX: u32 = 20;
/// After this long an address begins anew.
const WINDOW: Duration = Duration::from_secs(10);
/// Addresses that are remembered. When there are more, the one that began first is forgotten.
const ADDRESSES_MAX: usize = 4096;

/// Who was turned away.
#[derive(Debug, Default)]
pub(super) struct Knocks {
    refused: BTreeMap<IpAddr, Refused>,
}

#[derive(Debug, Clone, Copy)]
struct Refused {
    since: Instant,
    count: u32,
}

impl Knocks {
    /// Whether a knock from `address` is looked at.
    pub(super) fn may_knock(&self, address: IpAddr, now: Instant) -> bool {
        self.refused.get(&address).is_none_or(|refused| {
            now.duration_since(refused.since) >= WINDOW || refused.count < REFUSALS_MAX
        })
    }

    /// Notes that `address` was turned away for what it said.
    pub(super) fn on_refused(&mut self, address: IpAddr, now: Instant) {
        let fresh = Refused {
            since: now,
            count: 0,
        };
        let refused = self.refused.entry(address).or_insert(fresh);
        if now.duration_since(refused.since) >= WINDOW {
            *refused = fresh;
        }
        refused.count += 1;
        if self.refused.len() > ADDRESSES_MAX {
            let oldest = self.refused.iter().min_by_key(|(_, one)| one.since);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                self.refused.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn an_address_that_is_refused_too_often_waits_until_the_window_is_over() {
        let (mut knocks, now) = (Knocks::default(), Instant::now());
        for _ in 0..REFUSALS_MAX {
            assert!(knocks.may_knock(address(1), now));
            knocks.on_refused(address(1), now);
        }
        assert!(!knocks.may_knock(address(1), now));
        assert!(knocks.may_knock(address(2), now), "others may");
        assert!(knocks.may_knock(address(1), now + WINDOW));
        knocks.on_refused(address(1), now + WINDOW);
        assert!(knocks.may_knock(address(1), now + WINDOW), "it began anew");
    }

    #[test]
    fn so_many_addresses_are_remembered_and_the_oldest_is_forgotten_first() {
        let (mut knocks, now) = (Knocks::default(), Instant::now());
        for number in 0..=u32::try_from(ADDRESSES_MAX).expect("small") {
            let later = now + Duration::from_millis(u64::from(number));
            knocks.on_refused(address(number), later);
        }
        assert_eq!(knocks.refused.len(), ADDRESSES_MAX);
        assert!(!knocks.refused.contains_key(&address(0)));
    }
}
