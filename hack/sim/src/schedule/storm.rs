//! A storm: more nodes want a session at a moment than servers can serve at once.

use super::fault::{FaultKind, Links, Size};
use crate::cpu::{CORE, CpuIx};
use crate::event::ServerIx;
use crate::net::Weather;
use crate::rng::Rng;
use crate::time::{MICRO, MILLI, Nanos, SECOND};

/// Processor time of a server for a session from the first packet to live, without heartbeats.
pub const SESSION_COST: Nanos = 3_900 * MICRO;
/// When a storm begins that does not begin with the cluster.
const BEGIN: Nanos = 12 * SECOND;
/// How long a run is: the storm is over by then.
pub(super) const SECONDS: u64 = 60;

/// The reason why all nodes want a session at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// All hosts are switched on together.
    PowerOn,
    /// All daemons are started anew together.
    Restart,
    /// All nodes were cut off, and are not any more.
    Partition,
    /// The server that leads is killed.
    LeaderLost,
}

/// A storm, as the seed has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Storm {
    pub cause: Cause,
    /// When the first share begins to count.
    pub begins: Nanos,
    /// How long all sessions would take, one after the other, on all servers together.
    pub work: Nanos,
}

/// Draws a storm and its faults.
pub(super) fn draw(
    size: Size,
    rng: &mut Rng,
    add: &mut impl FnMut(Nanos, Nanos, FaultKind),
) -> Storm {
    let work = rng.between(3 * SECOND, 9 * SECOND);
    let (cause, unequal, falls) = match rng.below(6) {
        0 => (Cause::PowerOn, false, false),
        1 => (Cause::Restart, false, false),
        2 => (Cause::Partition, false, false),
        3 => (Cause::LeaderLost, false, false),
        4 => (Cause::Restart, true, false),
        _ => (Cause::Restart, false, true),
    };
    let begins = if cause == Cause::PowerOn { 0 } else { BEGIN };
    let all = u64::from(size.nodes) * SESSION_COST * CORE / work;
    let parts = |server: ServerIx| if unequal { 1 << server } else { 1 };
    let sum: u64 = (0..size.servers).map(parts).sum();
    let share = |server: ServerIx| (all * parts(server) / sum).max(1);
    for server in 0..size.servers {
        let share = share(server);
        let cpu = CpuIx::Server(server);
        add(begins, Nanos::MAX, FaultKind::Share { cpu, share });
    }
    // Nodes are slower than servers now and then, and never so slow that only they count.
    let of_nodes = FaultKind::Share {
        cpu: CpuIx::Nodes,
        share: all * rng.between(2, 6),
    };
    add(begins, Nanos::MAX, of_nodes);
    match cause {
        Cause::PowerOn => {}
        Cause::Restart => {
            for node in 0..size.nodes {
                let lasts = rng.between(5 * MILLI, 100 * MILLI);
                add(BEGIN + MILLI, lasts, FaultKind::KillDaemon { node });
            }
        }
        Cause::Partition => {
            let lasts = rng.between(4 * SECOND, 12 * SECOND);
            add(BEGIN + MILLI, lasts, FaultKind::CutAll);
        }
        Cause::LeaderLost => {
            add(BEGIN + MILLI, 30 * SECOND, FaultKind::KillLeader);
            // Most nodes have a connection to another server: that one ends, too.
            for server in 0..size.servers {
                let at = BEGIN + rng.between(200 * MILLI, 2 * SECOND);
                add(at, 0, FaultKind::DropConns { server });
            }
        }
    }
    trouble(begins, size, rng, add);
    if falls {
        let at = BEGIN + work / rng.between(2, 4);
        for server in 0..size.servers {
            let share = (share(server) * 2 / 3).max(1);
            let cpu = CpuIx::Server(server);
            add(at, Nanos::MAX, FaultKind::Share { cpu, share });
        }
    }
    Storm {
        cause,
        begins,
        work: if falls { work * 3 / 2 } else { work },
    }
}

/// Draws faults that come in the middle of a storm.
fn trouble(
    begins: Nanos,
    size: Size,
    rng: &mut Rng,
    add: &mut impl FnMut(Nanos, Nanos, FaultKind),
) {
    if rng.chance(300) {
        let weather = Weather {
            loss: rng.below(150),
            base: MILLI,
            jitter: rng.between(MILLI, 50 * MILLI),
        };
        let links = Links::OfNodes;
        add(begins, Nanos::MAX, FaultKind::Storm { weather, links });
    }
    if rng.chance(300) {
        for _ in 0..size.nodes / 8 {
            let node = u32::try_from(rng.below(u64::from(size.nodes))).unwrap_or(0);
            let at = begins + rng.between(SECOND, 20 * SECOND);
            let lasts = rng.between(20 * MILLI, 3 * SECOND);
            add(at, lasts, FaultKind::KillDaemon { node });
        }
    }
    if rng.chance(250) {
        let server = u8::try_from(rng.below(u64::from(size.servers))).unwrap_or(0);
        let at = begins + rng.between(SECOND, 15 * SECOND);
        let lasts = rng.between(100 * MILLI, 3 * SECOND);
        add(at, lasts, FaultKind::Stall { server });
    }
    if rng.chance(250) {
        let at = begins + rng.between(SECOND, 15 * SECOND);
        add(at, 0, FaultKind::StepDown);
    }
}
