//! Feeds one target: its seeds, every way to cut and to flip them, and then random changes.
//!
//! Three settings come from the environment. `FUZZ_SEED` is the seed of the random changes,
//! `FUZZ_SECONDS` how long they go on (a second without it), and `FUZZ_INPUT` one input in hex, as
//! a failure prints it: then nothing else is fed.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use hack_fuzz::{TARGETS, Target, Verdict};

use crate::mutator::{Mutator, Random};

/// What is fed when nobody says otherwise: a failure in CI is the same failure everywhere.
const SEED: u64 = 0x5eed;
/// The systematic part ends after this, whatever is left of it.
const SYSTEMATIC_TIME_MAX: Duration = Duration::from_millis(700);
/// So many random inputs without `FUZZ_SECONDS`, if the time allows.
const RANDOM_INPUTS_MAX: usize = 4_000;
const RANDOM_TIME_MAX: Duration = Duration::from_secs(1);
/// Cuts and flips per seed; a longer seed is cut and flipped at even distances.
const POSITIONS_MAX: usize = 2_048;
/// One input may take this much processor time, unoptimized; ten times what any needs.
const INPUT_TIME_MAX: Duration = Duration::from_secs(10);

/// What a run came to.
struct Feeder {
    name: &'static str,
    target: Target,
    seed: u64,
    fed: usize,
    understood: usize,
    slowest: Duration,
}

/// Feeds the target of this name. Every seed has to be understood: what is refused at the door
/// tests nothing behind it.
///
/// # Panics
/// When the target panics, with the seed and the input.
pub(crate) fn feed(name: &str, seeds: &[Vec<u8>], words: &[&[u8]]) {
    let (name, target) = TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("the target is in the list");
    let seed = setting("FUZZ_SEED").unwrap_or(SEED);
    let mut feeder = Feeder {
        name,
        target: *target,
        seed,
        fed: 0,
        understood: 0,
        slowest: Duration::ZERO,
    };
    if let Ok(hex) = std::env::var("FUZZ_INPUT") {
        let verdict = feeder.one(&from_hex(&hex));
        eprintln!("{name}: {verdict:?}");
        return;
    }
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for (number, bytes) in seeds.iter().enumerate() {
        let verdict = feeder.one(bytes);
        assert_eq!(verdict, Verdict::Understood, "seed {number} of {name}");
    }
    feeder.one(&[]);
    let systematic = feeder.systematic(seeds);
    let random = feeder.random(&Mutator { seeds, words });
    let Feeder {
        fed,
        understood,
        slowest,
        ..
    } = feeder;
    eprintln!(
        "{name}: {} seeds, {systematic} cut or flipped, {random} random from seed {seed}; \
         {understood} of {fed} understood; the slowest took {} ms",
        seeds.len(),
        slowest.as_millis()
    );
}

impl Feeder {
    fn one(&mut self, input: &[u8]) -> Verdict {
        let target = self.target;
        let started = processor_time();
        let Ok(verdict) = catch_unwind(|| target(input)) else {
            panic!(
                "{} panicked, seed {}, input {} ({} bytes); FUZZ_INPUT feeds it again",
                self.name,
                self.seed,
                to_hex(input),
                input.len()
            );
        };
        let took = processor_time().saturating_sub(started);
        assert!(
            took < INPUT_TIME_MAX,
            "{} took {} ms, seed {}, input {}",
            self.name,
            took.as_millis(),
            self.seed,
            to_hex(input)
        );
        self.slowest = self.slowest.max(took);
        self.fed += 1;
        self.understood += usize::from(verdict == Verdict::Understood);
        verdict
    }

    /// Every length of every seed, and every bit of it, the short seeds first.
    fn systematic(&mut self, seeds: &[Vec<u8>]) -> usize {
        let before = self.fed;
        let end = Instant::now() + SYSTEMATIC_TIME_MAX;
        let mut seeds: Vec<&Vec<u8>> = seeds.iter().collect();
        seeds.sort_by_key(|bytes| bytes.len());
        for bytes in seeds {
            let step = bytes.len() / POSITIONS_MAX + 1;
            for at in (0..bytes.len()).step_by(step) {
                if Instant::now() > end {
                    return self.fed - before;
                }
                self.one(&bytes[..at]);
                let mut flipped = bytes.clone();
                // Another bit at each place of a long seed, all eight of a short one.
                let bits = if bytes.len() < POSITIONS_MAX / 8 {
                    0..8
                } else {
                    at % 8..at % 8 + 1
                };
                for bit in bits {
                    flipped[at] ^= 1 << bit;
                    self.one(&flipped);
                    flipped[at] ^= 1 << bit;
                }
            }
        }
        self.fed - before
    }

    fn random(&mut self, mutator: &Mutator<'_>) -> usize {
        let before = self.fed;
        let seconds = setting("FUZZ_SECONDS").map(Duration::from_secs);
        let end = Instant::now() + seconds.unwrap_or(RANDOM_TIME_MAX);
        let mut random = Random(self.seed);
        loop {
            let input = mutator.input(&mut random);
            self.one(&input);
            let fed = self.fed - before;
            let enough = seconds.is_none() && fed >= RANDOM_INPUTS_MAX;
            if enough || Instant::now() >= end {
                return fed;
            }
        }
    }
}

/// What this thread has computed so far: a machine that is busy with others adds nothing.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a clock that counts from zero")
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a setting is a number"))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .trim()
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16).expect("hex")).expect("below 16"))
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
