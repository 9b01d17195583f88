//! Faults, as a list that can be cut down.

use std::time::Duration;

use hack_sim::rng::Rng;

use super::{NODES, SERVERS, Scenario};
use crate::net::{Machine, Weather};

/// When the first fault may come: the cluster is formed, and nodes are ready.
const BEGIN_MS: u64 = 5_000;
/// How long a server is left alone after its trouble: sessions find a second server again.
const REST_MS: u64 = 12_000;

/// Something that goes wrong for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Its number in the schedule of its seed.
    pub number: u32,
    pub at: Duration,
    /// How long; faults that are over at once have none.
    pub lasts: Duration,
    pub kind: FaultKind,
}

impl Fault {
    /// Whether a clock jumps.
    pub fn is_of_a_clock(&self) -> bool {
        matches!(self.kind, FaultKind::ClockJump { .. })
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing gets from one machine to another.
    Cut {
        from: Machine,
        to: Machine,
        way: Way,
    },
    /// A machine is cut off from everybody.
    CutOff { machine: Machine },
    /// A server is cut off from the others, not from the nodes.
    CutFromServers { server: Machine },
    /// Packets get lost, late, and in another order.
    Storm { weather: Weather },
    /// Everything to and from a machine takes longer.
    Slow { machine: Machine, extra: Duration },
    /// A server's process is killed, and starts again.
    KillServer { server: Machine },
    /// A server's machine loses its power.
    CutPower { server: Machine },
    /// All servers' machines do, at once.
    CutAllPower,
    /// Whoever leads hands the leadership on.
    StepDown,
    /// A node's daemon is killed, and starts again.
    KillDaemon { node: Machine },
    /// A node's host loses its power.
    Reboot { node: Machine },
    /// Syncs take longer.
    SlowDisk { machine: Machine, extra: Duration },
    /// Every write fails.
    DiskRefuses { machine: Machine },
    /// A server's power goes while it writes its log.
    DiskTears { server: Machine },
    /// A machine's wall clock is set forward or back.
    ClockJump { machine: Machine, by_ms: i64 },
}

/// Which directions of a link are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    There,
    Both,
}

/// Kinds of faults that a run has or has not: a run with all of them at once finds less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Cuts,
    CutOffs,
    Weather,
    Slow,
    ServerKills,
    Power,
    AllPower,
    StepDowns,
    DaemonKills,
    Reboots,
    ServerDisks,
    NodeDisks,
    Clocks,
    LongSilences,
    Lags,
}

impl Family {
    const ALL: [Self; 12] = [
        Self::Cuts,
        Self::CutOffs,
        Self::Weather,
        Self::Slow,
        Self::ServerKills,
        Self::Power,
        Self::StepDowns,
        Self::DaemonKills,
        Self::Reboots,
        Self::ServerDisks,
        Self::NodeDisks,
        Self::Clocks,
    ];

    fn of(scenario: Scenario, shape: &mut Rng) -> Vec<Self> {
        match scenario {
            Scenario::Calm | Scenario::OneServer => Vec::new(),
            Scenario::Storm => {
                let few: Vec<_> = Self::ALL
                    .into_iter()
                    .filter(|_| shape.chance(350))
                    .collect();
                if few.is_empty() {
                    vec![Self::Cuts, Self::ServerKills, Self::DaemonKills]
                } else {
                    few
                }
            }
            Scenario::Power => vec![Self::Power, Self::AllPower],
            Scenario::Disks => vec![Self::ServerDisks, Self::ServerDisks, Self::NodeDisks],
            Scenario::Partition => vec![Self::Cuts, Self::CutOffs],
            Scenario::Nodes => vec![Self::DaemonKills, Self::Reboots, Self::NodeDisks],
            Scenario::Leased => vec![
                Self::LongSilences,
                Self::LongSilences,
                Self::LongSilences,
                Self::Reboots,
                Self::StepDowns,
            ],
            Scenario::Access => vec![
                Self::Lags,
                Self::Lags,
                Self::Lags,
                Self::ServerKills,
                Self::StepDowns,
            ],
            Scenario::Leaders => vec![Self::StepDowns, Self::ServerKills, Self::StepDowns],
        }
    }
}

/// The faults of a run.
pub(super) fn draw(
    scenario: Scenario,
    safety: Duration,
    shape: &mut Rng,
    rng: &mut Rng,
) -> Vec<Fault> {
    let families = Family::of(scenario, shape);
    let until = u64::try_from(safety.as_millis()).unwrap_or(u64::MAX);
    let mut faults = Vec::new();
    let mut add = |at: u64, lasts: u64, kind| {
        faults.push(Fault {
            number: u32::try_from(faults.len()).unwrap_or(u32::MAX),
            at: Duration::from_millis(at),
            lasts: Duration::from_millis(lasts),
            kind,
        });
    };
    if scenario == Scenario::OneServer {
        one_server(until, rng, &mut add);
        return faults;
    }
    if families.is_empty() {
        return faults;
    }
    let mut at = BEGIN_MS;
    while at < until {
        let (lasts, kind) = one(families[rng.offset(families.len())], rng);
        add(at, lasts, kind);
        at += rng.between(300, 5_000);
    }
    faults
}

/// One server after the other in trouble, each well again for a while before the next.
fn one_server(until: u64, rng: &mut Rng, add: &mut impl FnMut(u64, u64, FaultKind)) {
    let mut at = 2 * BEGIN_MS;
    while at < until {
        let server = machine(rng, 0, SERVERS);
        let lasts = rng.between(1_000, 8_000);
        let (lasts, kind) = match rng.below(5) {
            0 => (lasts, FaultKind::KillServer { server }),
            1 => (lasts, FaultKind::CutPower { server }),
            2 => (lasts, FaultKind::CutFromServers { server }),
            3 => (lasts, FaultKind::CutOff { machine: server }),
            _ => (0, FaultKind::StepDown),
        };
        add(at, lasts, kind);
        at += lasts + REST_MS;
    }
}

fn one(family: Family, rng: &mut Rng) -> (u64, FaultKind) {
    let server = machine(rng, 0, SERVERS);
    let node = machine(rng, SERVERS, SERVERS + NODES);
    let any = machine(rng, 0, SERVERS + NODES);
    // Mostly around the detection time, sometimes far beyond it.
    let span = match rng.below(4) {
        0 => rng.between(50, 2_000),
        1 | 2 => rng.between(2_000, 6_000),
        _ => rng.between(6_000, 20_000),
    };
    let extra = Duration::from_millis(rng.between(5, 400));
    match family {
        Family::Cuts => {
            let way = if rng.chance(500) {
                Way::Both
            } else {
                Way::There
            };
            let to = machine(rng, 0, SERVERS + NODES - 1);
            let to = if to >= any { to + 1 } else { to };
            (span, FaultKind::Cut { from: any, to, way })
        }
        Family::CutOffs if rng.chance(300) => (span, FaultKind::CutFromServers { server }),
        Family::CutOffs => (span, FaultKind::CutOff { machine: any }),
        Family::Lags => of_lag(server, span, extra, rng),
        Family::Weather => {
            let weather = Weather {
                loss: rng.below(250),
                delay_ms: rng.between(1, 20),
                jitter_ms: rng.between(1, 100),
            };
            (span, FaultKind::Storm { weather })
        }
        Family::Slow => (
            span,
            FaultKind::Slow {
                machine: any,
                extra,
            },
        ),
        Family::ServerKills => (span / 2, FaultKind::KillServer { server }),
        Family::Power => (span / 2, FaultKind::CutPower { server }),
        Family::AllPower => (rng.between(100, 1_500), FaultKind::CutAllPower),
        Family::StepDowns => (0, FaultKind::StepDown),
        Family::DaemonKills => (span / 2, FaultKind::KillDaemon { node }),
        Family::LongSilences => {
            let lasts = rng.between(10_000, 25_000);
            if rng.chance(700) {
                (lasts, FaultKind::KillDaemon { node })
            } else {
                (lasts, FaultKind::CutOff { machine: node })
            }
        }
        Family::Reboots => (span, FaultKind::Reboot { node }),
        Family::ServerDisks => of_server_disk(server, span, extra, rng),
        Family::NodeDisks if rng.chance(500) => {
            let machine = node;
            (span, FaultKind::SlowDisk { machine, extra })
        }
        Family::NodeDisks => (span, FaultKind::DiskRefuses { machine: node }),
        Family::Clocks => {
            let far = i64::try_from(rng.below(20_000)).unwrap_or(0);
            let by_ms = far - 10_000;
            (
                0,
                FaultKind::ClockJump {
                    machine: any,
                    by_ms,
                },
            )
        }
    }
}

/// A server that lags behind the others: they do not reach it, or its link or its disk is slow.
fn of_lag(server: Machine, span: u64, extra: Duration, rng: &mut Rng) -> (u64, FaultKind) {
    let machine = server;
    let way = if rng.chance(500) {
        Way::Both
    } else {
        Way::There
    };
    let other = self::machine(rng, 1, SERVERS);
    let from = (server + other) % SERVERS;
    let kind = match rng.below(4) {
        0 => FaultKind::CutFromServers { server },
        1 => FaultKind::Cut {
            from,
            to: server,
            way,
        },
        2 => FaultKind::Slow { machine, extra },
        _ => FaultKind::SlowDisk { machine, extra },
    };
    (span, kind)
}

fn of_server_disk(server: Machine, span: u64, extra: Duration, rng: &mut Rng) -> (u64, FaultKind) {
    let machine = server;
    match rng.below(3) {
        0 => (span, FaultKind::SlowDisk { machine, extra }),
        1 => (span / 2, FaultKind::DiskRefuses { machine }),
        _ => (span / 2, FaultKind::DiskTears { server }),
    }
}

fn machine(rng: &mut Rng, first: Machine, end: Machine) -> Machine {
    let offset = rng.below(u64::from(end - first));
    first + Machine::try_from(offset).unwrap_or(0)
}
