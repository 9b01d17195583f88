//! Ids from a seed: whoever calls the scheduler draws sixteen random bytes, and everything that is
//! made of them is the same in every run with that seed.

use uuid::Uuid;

/// A sequence of ids and numbers, fixed by its seed.
#[derive(Clone, Debug)]
pub struct Seeded {
    state: [u64; 2],
}

impl Seeded {
    /// The sequence of `seed`.
    pub fn new(seed: [u8; 16]) -> Self {
        let bits = u128::from_be_bytes(seed);
        // Halves, not a cast: both decide.
        let high = u64::try_from(bits >> 64).unwrap_or_default();
        let low = u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
        Self { state: [high, low] }
    }

    /// The next id, in the form of a random (version 4) UUID.
    pub fn next_id(&mut self) -> Uuid {
        uuid::Builder::from_random_bytes(
            ((u128::from(self.next()) << 64) | u128::from(self.next())).to_be_bytes(),
        )
        .into_uuid()
    }

    /// The next number below `bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 {
            return 0;
        }
        u32::try_from(self.next() % u64::from(bound)).unwrap_or_default()
    }

    /// SplitMix64 (Steele, Lea, Flood 2014), two lanes so that all 128 bits of the seed count.
    fn next(&mut self) -> u64 {
        let [first, second] = &mut self.state;
        *first = first.wrapping_add(0x9e37_79b9_7f4a_7c15);
        *second = second.wrapping_add(*first | 1);
        let mut mixed = *first ^ second.rotate_left(32);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_seeds_give_equal_ids_and_ids_do_not_repeat() {
        let mut left = Seeded::new([7; 16]);
        let mut right = Seeded::new([7; 16]);
        let ids: BTreeSet<_> = (0..10_000).map(|_| left.next_id()).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.contains(&right.next_id()));
        assert_ne!(
            Seeded::new([8; 16]).next_id(),
            Seeded::new([7; 16]).next_id()
        );
        assert_ne!(Seeded::new([0; 16]).next_id(), {
            let mut seed = [0; 16];
            seed[15] = 1;
            Seeded::new(seed).next_id()
        });
    }
}
