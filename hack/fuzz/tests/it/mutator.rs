//! Bends bytes: a small generator of random numbers, and the ways in which an input goes wrong.

/// A longer input shows nothing that a shorter one does not.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// So many changes are made to one input at most.
const CHANGES_MAX: usize = 4;
/// The longest piece that is cut, repeated or taken from another input.
const PIECE_BYTES_MAX: usize = 64;

/// Bytes that borders are made of: lengths, signs, varints, quotes, brackets.
const EDGES: &[&[u8]] = &[
    &[0],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[
        0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    ],
    b"-1",
    b"1e400",
    b"18446744073709551616",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"null",
    b"{}",
    b"[]",
    b"\"\"",
    b"\\ud800",
    "\u{fffd}\u{1f980}".as_bytes(),
];

/// SplitMix64: any seed is a good one, and the same seed gives the same inputs everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 where there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("64 bits");
        let number = self.next().checked_rem(limit).unwrap_or(0);
        usize::try_from(number).expect("below a usize")
    }
}

/// What inputs are made of.
pub(crate) struct Mutator<'a> {
    pub(crate) seeds: &'a [Vec<u8>],
    /// Pieces with a meaning in this format.
    pub(crate) words: &'a [&'a [u8]],
}

impl Mutator<'_> {
    /// A seed, or bytes without any meaning, bent one to four times.
    pub(crate) fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut input = match random.below(32) {
            0 => (0..random.below(200)).map(|_| byte(random)).collect(),
            _ => self.seed(random).to_vec(),
        };
        for _ in 0..=random.below(CHANGES_MAX) {
            self.change(&mut input, random);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len());
        let until = (at + 1 + random.below(PIECE_BYTES_MAX)).min(input.len());
        match random.below(10) {
            0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
            1 if !input.is_empty() => input[at] = byte(random),
            2 => input.truncate(at),
            3 => drop(input.drain(at..until)),
            4 => {
                let piece = input[at..until].to_vec();
                let times = 1 + random.below(3);
                input.splice(at..at, piece.repeat(times));
            }
            5 => {
                let edge = EDGES[random.below(EDGES.len())];
                overwrite(input, at, edge);
            }
            6 => {
                let edge = EDGES[random.below(EDGES.len())];
                input.splice(at..at, edge.iter().copied());
            }
            7 => {
                let other = self.seed(random);
                let from = random.below(other.len());
                let until = (from + 1 + random.below(PIECE_BYTES_MAX)).min(other.len());
                let piece = other[from..until].to_vec();
                input.splice(at..at, piece);
            }
            // The head of one input and the tail of another.
            8 => {
                let other = self.seed(random);
                let from = random.below(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ if self.words.is_empty() => input.insert(at, byte(random)),
            _ => {
                let word = self.words[random.below(self.words.len())];
                input.splice(at..at, word.iter().copied());
            }
        }
    }

    fn seed(&self, random: &mut Random) -> &[u8] {
        &self.seeds[random.below(self.seeds.len())]
    }
}

fn byte(random: &mut Random) -> u8 {
    u8::try_from(random.below(256)).expect("below 256")
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    for (old, new) in input[at..].iter_mut().zip(bytes) {
        *old = *new;
    }
}
