//! What operators want, as a list that can be cut down.

use super::fault::Size;
use super::{Scenario, jobs};
use crate::event::{NodeIx, ServerIx};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

/// A host is in one of so many racks, as its operator says.
const RACKS: u64 = 3;

/// One wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// Its number in the schedule of its seed.
    pub number: u32,
    pub at: Nanos,
    /// The server that is asked.
    pub server: ServerIx,
    pub kind: OpKind,
}

/// What is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// Register the job, with this count, as this generation.
    Register {
        job: usize,
        count: u32,
        generation: u32,
    },
    /// Stop the job.
    Stop { job: usize },
    /// Stop one of the job's allocations, and place another one for it.
    StopAlloc { job: usize, pick: u32 },
    /// Change the job's newest deployment.
    Steer { job: usize, wish: Steering },
    /// Look at the job again.
    Evaluate { job: usize },
    /// Move everything off a node, or let it come back.
    Drain { node: NodeIx, begin: bool },
    /// Say of a host in which rack it is, and tell its daemon.
    Relabel { node: NodeIx, rack: u32 },
    /// Forget a node, whether it is there or not.
    Purge { node: NodeIx },
}

/// Changes of a deployment by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steering {
    Promote,
    Fail,
    Pause,
    Resume,
}

pub(super) fn draw(kinds: &[jobs::Kind], scenario: Scenario, size: Size, rng: &mut Rng) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut add = |at: Nanos, kind: OpKind, rng: &mut Rng| {
        let number = u32::try_from(ops.len()).unwrap_or(u32::MAX);
        let server = u8::try_from(rng.below(u64::from(size.servers))).unwrap_or(0);
        ops.push(Op {
            number,
            at,
            server,
            kind,
        });
    };
    let mut at = 4 * SECOND;
    for (job, kind) in kinds.iter().enumerate() {
        let count = jobs::count(*kind, size.nodes);
        let first = OpKind::Register {
            job,
            count,
            generation: 0,
        };
        add(at, first, rng);
        at += rng.between(100 * MILLI, 900 * MILLI);
    }
    // The four classic cases are about nodes, not about operators.
    let busy = matches!(
        scenario,
        Scenario::Storm
            | Scenario::Calm
            | Scenario::Leaders
            | Scenario::Lossy
            | Scenario::Handover
            | Scenario::Log
            | Scenario::Lagging
            | Scenario::Damaged
            | Scenario::Stuck
            | Scenario::Leased
            | Scenario::Rolling
            | Scenario::Canary
            | Scenario::Periodic
            | Scenario::Operators
    );
    let mut drained: Option<NodeIx> = None;
    at += 2 * SECOND;
    while busy && at + 3 * SECOND < size.until {
        let kind = if scenario == Scenario::Operators && rng.chance(500) {
            by_hand(kinds, size, rng)
        } else if scenario == Scenario::Canary && rng.chance(400) {
            steer(kinds, rng)
        } else {
            one_of_many(kinds, size, &mut drained, rng)
        };
        add(at, kind, rng);
        at += rng.between(SECOND, 9 * SECOND);
    }
    if let Some(node) = drained {
        add(at, OpKind::Drain { node, begin: false }, rng);
    }
    ops
}

/// An operator has a look at a rollout.
fn steer(kinds: &[jobs::Kind], rng: &mut Rng) -> OpKind {
    let job = rng.offset(kinds.len());
    let wish = match rng.below(6) {
        0..=2 => Steering::Promote,
        3 => Steering::Fail,
        4 => Steering::Pause,
        _ => Steering::Resume,
    };
    OpKind::Steer { job, wish }
}

/// What an operator does who does not want to wait for a node.
fn by_hand(kinds: &[jobs::Kind], size: Size, rng: &mut Rng) -> OpKind {
    let small = |below: u64, rng: &mut Rng| u32::try_from(rng.below(below)).unwrap_or(0);
    if rng.chance(300) {
        let node = small(u64::from(size.nodes), rng);
        return OpKind::Purge { node };
    }
    let job = rng.offset(kinds.len());
    let pick = small(16, rng);
    OpKind::StopAlloc { job, pick }
}

/// What somebody wants while everything goes on; `drained` is the node that is being drained.
fn one_of_many(
    kinds: &[jobs::Kind],
    size: Size,
    drained: &mut Option<NodeIx>,
    rng: &mut Rng,
) -> OpKind {
    let any_node = |rng: &mut Rng| {
        let node = rng.below(u64::from(size.nodes));
        u32::try_from(node).unwrap_or(0)
    };
    let job = rng.offset(kinds.len());
    let usual = jobs::count(kinds[job], size.nodes);
    match rng.below(11) {
        0..=3 => OpKind::Register {
            job,
            count: usual,
            generation: u32::try_from(rng.below(4)).unwrap_or(0),
        },
        4..=6 => OpKind::Register {
            job,
            count: u32::try_from(rng.between(1, u64::from(usual) + 2)).unwrap_or(1),
            generation: 0,
        },
        7 => OpKind::Stop { job },
        8 => OpKind::Evaluate { job },
        9 => OpKind::Relabel {
            node: any_node(rng),
            rack: u32::try_from(rng.below(RACKS)).unwrap_or(0),
        },
        _ => match drained.take() {
            Some(node) => OpKind::Drain { node, begin: false },
            None => {
                let node = any_node(rng);
                *drained = Some(node);
                OpKind::Drain { node, begin: true }
            }
        },
    }
}
