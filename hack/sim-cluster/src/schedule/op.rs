//! What operators want, as a list that can be cut down.

use std::time::Duration;

use hack_sim::rng::Rng;
use hack_sim::schedule::jobs::{self, Kind};

use super::access::{self, Round};
use super::{NODES, SERVERS};
use crate::net::Machine;

/// One wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// Its number in the schedule of its seed.
    pub number: u32,
    pub at: Duration,
    /// The server that is asked.
    pub server: Machine,
    pub kind: OpKind,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Register the job, with this count, as this generation.
    Register {
        job: usize,
        count: u32,
        generation: u32,
    },
    /// Stop the job.
    Stop { job: usize },
    /// Look at the job again.
    Evaluate { job: usize },
    /// Read what is newest.
    Read,
    /// Make a token, use it, and take its right away.
    Access(Round),
}

/// How many allocations a job wants at first.
pub fn usual(kind: Kind) -> u32 {
    jobs::count(kind, NODES.into())
}

/// When the first round of access may begin, in milliseconds: the operators have their token.
const ROUNDS_BEGIN_MS: u64 = 4_000;

/// Adds rounds of access, so many milliseconds apart. The other wishes keep their numbers.
pub(super) fn add_rounds(
    ops: &mut Vec<Op>,
    safety: Duration,
    (pause_min, pause_max): (u64, u64),
    rng: &mut Rng,
) {
    let last = ops.iter().map(|op| op.number).max();
    let mut number = last.map_or(0, |last| last + 1);
    let until = u64::try_from(safety.as_millis()).unwrap_or(u64::MAX);
    let mut at = ROUNDS_BEGIN_MS;
    while at + 2_000 < until {
        let round = access::round(rng);
        ops.push(Op {
            number,
            at: Duration::from_millis(at),
            server: round.maker,
            kind: OpKind::Access(round),
        });
        number += 1;
        at += rng.between(pause_min, pause_max);
    }
}

pub(super) fn draw(kinds: &[Kind], safety: Duration, rng: &mut Rng) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut add = |at: u64, kind, rng: &mut Rng| {
        let server = Machine::try_from(rng.below(SERVERS.into())).unwrap_or(0);
        ops.push(Op {
            number: u32::try_from(ops.len()).unwrap_or(u32::MAX),
            at: Duration::from_millis(at),
            server,
            kind,
        });
    };
    let mut at = 2_500;
    for (job, kind) in kinds.iter().enumerate() {
        let first = OpKind::Register {
            job,
            count: usual(*kind),
            generation: 0,
        };
        add(at, first, rng);
        at += rng.between(50, 500);
    }
    let until = u64::try_from(safety.as_millis()).unwrap_or(u64::MAX);
    at += 1_000;
    while at + 2_000 < until {
        let job = rng.offset(kinds.len());
        let kind = match rng.below(10) {
            0..=3 => OpKind::Register {
                job,
                count: usual(kinds[job]),
                generation: u32::try_from(rng.below(4)).unwrap_or(0),
            },
            4..=6 => OpKind::Register {
                job,
                count: u32::try_from(rng.between(1, u64::from(usual(kinds[job])) + 2)).unwrap_or(1),
                generation: 0,
            },
            7 | 8 => OpKind::Stop { job },
            _ => OpKind::Evaluate { job },
        };
        add(at, kind, rng);
        at += rng.between(500, 5_000);
    }
    let mut at = 5_000;
    while at < until {
        add(at, OpKind::Read, rng);
        at += rng.between(100, 1_500);
    }
    ops
}
