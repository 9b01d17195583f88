//! Chance from a seed: one number decides a whole run, and every source of chance draws from a
//! stream of its own, so that leaving one fault out does not reshuffle everything else.

/// A stream of chance (SplitMix64: 64 bits of state, passes BigCrush, a few instructions).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream `name` of a run.
    pub fn new(seed: u64, name: u64) -> Self {
        let mut rng = Self(seed ^ name.wrapping_mul(0xa076_1d64_78bd_642f));
        rng.draw();
        rng
    }

    /// 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 where `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 {
            return 0;
        }
        // The bias of a 64-bit product is far below what any run could notice.
        let product = u128::from(self.draw()) * u128::from(end);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from `low` to `high`, `high` left out.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    /// Whether something with this chance, in a thousand, happens.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// An offset into a list of `len`.
    pub fn offset(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// 16 bytes: a seed of someone else's.
    pub fn bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.draw().to_le_bytes());
        bytes[8..].copy_from_slice(&self.draw().to_le_bytes());
        bytes
    }

    /// 128 bits: an id.
    pub fn id(&mut self) -> u128 {
        u128::from_le_bytes(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn equal_seeds_give_equal_chance_and_streams_differ() {
        let draw = |seed, name| {
            let mut rng = Rng::new(seed, name);
            [rng.draw(), rng.draw()]
        };
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_ne!(draw(1, 1), draw(2, 1));
    }

    #[test]
    fn a_number_below_stays_below() {
        let mut rng = Rng::new(7, 0);
        assert!((0..1000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.below(0), 0);
    }
}
