//! Numbers that look random, from a seed that is an argument: jitter and nonces.

use std::time::Duration;

/// Mixes a seed and a position into a number (the finalizer of SplitMix64).
pub(crate) fn mix(seed: u64, position: u64) -> u64 {
    let mut mixed = seed ^ position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The two halves of a seed of 16 bytes.
pub(crate) fn halves(seed: &[u8; 16]) -> (u64, u64) {
    let number = u128::from_le_bytes(*seed);
    let low = u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0);
    let high = u64::try_from(number >> 64).unwrap_or(0);
    (low, high)
}

/// A part of `whole` between nothing and all of it, chosen by `number`.
pub(crate) fn part_of(whole: Duration, number: u64) -> Duration {
    let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
    let part = (u128::from(nanos) * u128::from(number)) >> 64;
    Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_between_nothing_and_the_whole() {
        let whole = Duration::from_secs(10);
        assert_eq!(part_of(whole, 0), Duration::ZERO);
        assert!(part_of(whole, u64::MAX) < whole);
        assert!(part_of(whole, u64::MAX / 2) < whole / 2 + Duration::from_millis(1));
    }

    #[test]
    fn neighbouring_positions_give_unrelated_numbers() {
        let numbers: std::collections::BTreeSet<u64> = (0..1000).map(|at| mix(7, at)).collect();
        assert_eq!(numbers.len(), 1000);
    }
}
