//! What operators want, as a list that can be cut down.

use protocol_model::DrainSpec;

use super::fault::Size;
use super::keys::{self, KeyWish};
use super::{Scenario, jobs};
use crate::event::{NodeIx, ServerIx};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

/// A host is in one of so many racks, as its operator says.
const RACKS: u64 = 3;
/// How many tokens dispatches have.
const TOKENS: u64 = 12;

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
    Drain {
        node: NodeIx,
        spec: Option<DrainSpec>,
    },
    /// Launch a parameterized job, or find the launch that this token made before.
    Dispatch { job: usize, token: u32 },
    /// Let services evict those of lower priority.
    AllowPreemption,
    /// Say of a host in which rack it is, and tell its daemon.
    Relabel { node: NodeIx, rack: u32 },
    /// Forget a node, whether it is there or not.
    Purge { node: NodeIx },
    /// Something about root keys, or about what they seal.
    Key(KeyWish),
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
    if scenario == Scenario::Preempt {
        add(7 * SECOND / 2, OpKind::AllowPreemption, rng);
    }
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
            | Scenario::Drain
            | Scenario::Dispatch
            | Scenario::Preempt
            | Scenario::Keys
            | Scenario::Operators
    );
    let mut drained: Option<NodeIx> = None;
    at += 2 * SECOND;
    while busy && at + 3 * SECOND < size.until {
        let kind = wish(kinds, scenario, size, &mut drained, rng);
        add(at, kind, rng);
        if scenario == Scenario::Dispatch {
            // Two clients have one token, and ask at once.
            if matches!(kind, OpKind::Dispatch { .. }) && rng.chance(500) {
                add(at + rng.below(20 * MILLI), kind, rng);
            }
            at += rng.between(100 * MILLI, 4 * SECOND);
        } else if scenario == Scenario::Keys {
            at += rng.between(5 * MILLI, 1_500 * MILLI);
        } else {
            at += rng.between(SECOND, 9 * SECOND);
        }
    }
    if let Some(node) = drained {
        add(at, OpKind::Drain { node, spec: None }, rng);
    }
    ops
}

/// A wish of a busy run, as its scenario has them.
fn wish(
    kinds: &[jobs::Kind],
    scenario: Scenario,
    size: Size,
    drained: &mut Option<NodeIx>,
    rng: &mut Rng,
) -> OpKind {
    match scenario {
        Scenario::Operators if rng.chance(500) => by_hand(kinds, size, rng),
        Scenario::Canary if rng.chance(400) => steer(kinds, rng),
        Scenario::Drain if rng.chance(600) => drain(size, rng),
        Scenario::Dispatch if rng.chance(800) => dispatch(kinds, rng),
        Scenario::Preempt if rng.chance(700) => crowd(kinds, size, rng),
        Scenario::Keys if rng.chance(900) => OpKind::Key(keys::wish(rng)),
        _ => one_of_many(kinds, size, drained, rng),
    }
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

/// A node is emptied for its maintenance, or is back from it.
fn drain(size: Size, rng: &mut Rng) -> OpKind {
    let node = u32::try_from(rng.below(u64::from(size.nodes))).unwrap_or(0);
    if rng.chance(350) {
        return OpKind::Drain { node, spec: None };
    }
    let within = rng.between(2 * SECOND, 25 * SECOND);
    let deadline = match rng.below(10) {
        0 => -1,
        1..=3 => 0,
        _ => i64::try_from(within).unwrap_or(0),
    };
    let spec = Some(DrainSpec {
        deadline,
        ignore_system_jobs: rng.chance(250),
    });
    OpKind::Drain { node, spec }
}

/// Few tokens, so that most of them come again.
fn dispatch(kinds: &[jobs::Kind], rng: &mut Rng) -> OpKind {
    let templates = kinds.iter().enumerate();
    let mut templates = templates.filter(|(_, kind)| **kind == jobs::Kind::Parameterized);
    let job = templates.next().map_or(0, |(job, _)| job);
    let token = u32::try_from(rng.below(TOKENS)).unwrap_or(0);
    OpKind::Dispatch { job, token }
}

/// A job wants more than there is room for beside the others.
fn crowd(kinds: &[jobs::Kind], size: Size, rng: &mut Rng) -> OpKind {
    let job = rng.offset(kinds.len());
    let nodes = u64::from(size.nodes);
    let count = match kinds[job] {
        jobs::Kind::Filler => rng.between(2 * nodes, 4 * nodes),
        _ => rng.between(1, 2 * nodes),
    };
    OpKind::Register {
        job,
        count: u32::try_from(count).unwrap_or(1),
        generation: 0,
    }
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
            Some(node) => OpKind::Drain { node, spec: None },
            None => {
                let node = any_node(rng);
                *drained = Some(node);
                let spec = Some(DrainSpec::default());
                OpKind::Drain { node, spec }
            }
        },
    }
}
