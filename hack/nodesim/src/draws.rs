//! Chance from a number: SplitMix64 (Steele, Lea and Flood, 2014), whose every position can be
//! asked for by itself.

/// How far apart positions are.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Numbers that look random, the same ones for the same seed.
#[derive(Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    /// The numbers of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// The same from a position on.
    pub(crate) fn from_position(seed: u64, position: u64) -> Self {
        Self(seed.wrapping_add(position.wrapping_mul(STEP)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below `limit`, which is not 0; each as likely, but for a part that nobody could measure
    /// where limits are far below 2^64.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(limit);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    pub(crate) fn bytes<const LENGTH: usize>(&mut self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_is_asked_for_is_the_one_that_is_reached() {
        let mut draws = Draws::of(7);
        let all: Vec<u64> = (0..5).map(|_| draws.next()).collect();
        assert_eq!(Draws::from_position(7, 3).next(), all[3]);
        assert_eq!(Draws::from_position(7, 0).next(), all[0]);
    }

    #[test]
    fn what_is_below_a_limit_is_every_number_below_it() {
        let mut draws = Draws::of(7);
        let mut seen = [0; 6];
        for _ in 0..1_000 {
            seen[usize::try_from(draws.below(6)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}
