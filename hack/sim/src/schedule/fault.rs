//! Faults, as a list that can be cut down.

use super::Scenario;
use super::storm::{self, Storm};
use crate::cpu::CpuIx;
use crate::event::{NodeIx, ServerIx};
use crate::net::Weather;
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

/// Something that goes wrong for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its number in the schedule of its seed.
    pub number: u32,
    pub at: Nanos,
    /// How long; faults that are over at once have none.
    pub lasts: Nanos,
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// A node reaches no server.
    CutNode { node: NodeIx, way: Way },
    /// A node does not reach one of the servers.
    CutLink { node: NodeIx, server: ServerIx },
    /// Nobody reaches anybody.
    CutAll,
    /// A server reaches no other server; nodes still reach it.
    CutServer { server: ServerIx },
    /// A server is killed, and started again in the end.
    KillServer { server: ServerIx },
    /// A server's process stands still, and goes on as if nothing had been.
    Stall { server: ServerIx },
    /// Whoever leads reaches no other server, and does not know that it leads no more.
    CutLeader,
    /// The server that leads is killed, and started again in the end.
    KillLeader,
    /// A server, or all nodes together, have only this part of a core, in millionths.
    Share { cpu: CpuIx, share: u64 },
    /// A server takes this long for everything.
    SlowServer { server: ServerIx, extra: Nanos },
    /// A server applies what is committed this much later; it answers everybody as it should.
    LagServer { server: ServerIx, lag: Nanos },
    /// A majority's disks take this long for every entry.
    SlowLog { extra: Nanos },
    /// Every connection of a server with a node ends.
    DropConns { server: ServerIx },
    /// The leader is replaced although nothing is wrong with it.
    StepDown,
    /// A daemon is killed; its tasks go on.
    KillDaemon { node: NodeIx },
    /// A daemon is killed, and a record of its journal about a run is damaged meanwhile.
    DamageJournal { node: NodeIx },
    /// A host goes down with everything on it.
    Reboot { node: NodeIx },
    /// A node's disk refuses every write.
    DiskFull { node: NodeIx },
    /// A node's disk takes seconds for a sync.
    DiskSlow { node: NodeIx },
    /// The weather changes, on all ways or only on those of nodes.
    Storm { weather: Weather, links: Links },
    /// A server's wall clock jumps.
    ClockJump { server: ServerIx, by: i64 },
}

impl FaultKind {
    /// Whether it is bad weather in which no node that is well may be given up.
    pub fn is_promised_weather(self) -> bool {
        matches!(
            self,
            Self::Storm {
                links: Links::OfNodes,
                ..
            }
        )
    }

    /// Whether it hits nodes only, and their ways to servers.
    pub fn is_about_nodes(self) -> bool {
        match self {
            Self::CutNode { .. }
            | Self::CutLink { .. }
            | Self::CutAll
            | Self::KillDaemon { .. }
            | Self::DamageJournal { .. }
            | Self::Reboot { .. }
            | Self::DiskFull { .. }
            | Self::DiskSlow { .. } => true,
            Self::CutServer { .. }
            | Self::KillServer { .. }
            | Self::Stall { .. }
            | Self::CutLeader
            | Self::KillLeader
            | Self::Share { .. }
            | Self::SlowServer { .. }
            | Self::LagServer { .. }
            | Self::SlowLog { .. }
            | Self::DropConns { .. }
            | Self::StepDown
            | Self::Storm { .. }
            | Self::ClockJump { .. } => false,
        }
    }

    /// Whether it keeps a node neither from being heard nor from being confirmed.
    pub fn spares(self, ix: NodeIx) -> bool {
        match self {
            Self::CutNode { node, .. }
            | Self::CutLink { node, .. }
            | Self::KillDaemon { node }
            | Self::DamageJournal { node }
            | Self::Reboot { node } => node != ix,
            Self::DiskFull { .. } | Self::DiskSlow { .. } => true,
            // A node is heard late, and is not given up for that.
            Self::Share { .. } => true,
            Self::CutAll
            | Self::CutServer { .. }
            | Self::KillServer { .. }
            | Self::Stall { .. }
            | Self::CutLeader
            | Self::KillLeader
            | Self::SlowServer { .. }
            | Self::LagServer { .. }
            | Self::SlowLog { .. }
            | Self::DropConns { .. }
            | Self::StepDown
            | Self::Storm { .. }
            | Self::ClockJump { .. } => false,
        }
    }

    /// Whether it is about the disk of a node.
    pub fn is_disk_of(self, ix: NodeIx) -> bool {
        matches!(self, Self::DiskFull { node } | Self::DiskSlow { node, .. } if node == ix)
    }

    /// The server that it is about, where it is about one, and gone or out of reach.
    pub fn only_server(self) -> Option<ServerIx> {
        match self {
            Self::CutLink { server, .. }
            | Self::CutServer { server }
            | Self::KillServer { server }
            | Self::DropConns { server } => Some(server),
            Self::CutNode { .. }
            | Self::CutAll
            | Self::Stall { .. }
            | Self::CutLeader
            | Self::KillLeader
            | Self::Share { .. }
            | Self::SlowServer { .. }
            | Self::LagServer { .. }
            | Self::SlowLog { .. }
            | Self::StepDown
            | Self::KillDaemon { .. }
            | Self::DamageJournal { .. }
            | Self::Reboot { .. }
            | Self::DiskFull { .. }
            | Self::DiskSlow { .. }
            | Self::Storm { .. }
            | Self::ClockJump { .. } => None,
        }
    }
}

/// Where the weather is bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    All,
    /// Servers stand beside each other.
    OfNodes,
}

/// Which direction of a link is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Both,
    ToServer,
    ToNode,
}

/// Kinds of faults that a run has or has not: a run with all of them at once finds less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    Cuts,
    Outages,
    ServerCuts,
    ServerKills,
    SlowServers,
    StepDowns,
    DaemonKills,
    Reboots,
    Disks,
    Weather,
    Clocks,
    SlowLogs,
    Lags,
    LeaderCuts,
    LongLeaderCuts,
    Drops,
    QuickRestarts,
    Damage,
    Stalls,
}

impl Family {
    const ALL: [Self; 12] = [
        Self::Cuts,
        Self::Outages,
        Self::ServerCuts,
        Self::ServerKills,
        Self::SlowServers,
        Self::StepDowns,
        Self::DaemonKills,
        Self::Reboots,
        Self::Disks,
        Self::Weather,
        Self::Clocks,
        Self::Stalls,
    ];

    /// Leaders change, and nodes come and go.
    const CHURN: [Self; 4] = [
        Self::StepDowns,
        Self::ServerKills,
        Self::Cuts,
        Self::Reboots,
    ];

    /// Leaders that do not know yet that they are none leave wishes without an answer, too.
    const CHURN_AND_CUTS: [Self; 5] = [
        Self::StepDowns,
        Self::ServerKills,
        Self::LeaderCuts,
        Self::Cuts,
        Self::Reboots,
    ];

    /// Leaders change in the middle of handshakes.
    const LEADERS: [Self; 5] = [
        Self::StepDowns,
        Self::ServerKills,
        Self::ServerCuts,
        Self::DaemonKills,
        Self::Cuts,
    ];

    /// Leaders change, lose their majority, stand still and wait for their log.
    const OF_LEADERS: [Self; 7] = [
        Self::StepDowns,
        Self::ServerKills,
        Self::ServerCuts,
        Self::LeaderCuts,
        Self::SlowLogs,
        Self::SlowLogs,
        Self::Stalls,
    ];

    /// Leaders are cut off for longer than a lock lives.
    const LONG_CUTS: [Self; 4] = [
        Self::LongLeaderCuts,
        Self::SlowLogs,
        Self::SlowLogs,
        Self::SlowLogs,
    ];

    pub(super) fn of(scenario: Scenario, rng: &mut Rng) -> Vec<Self> {
        match scenario {
            Scenario::Periodic => {
                let others = [
                    Self::ServerKills,
                    Self::LeaderCuts,
                    Self::Reboots,
                    Self::SlowLogs,
                ];
                let others = others.into_iter().filter(|_| rng.chance(500));
                [Self::Clocks, Self::StepDowns]
                    .into_iter()
                    .chain(others)
                    .collect()
            }
            Scenario::Canary => Self::CHURN.to_vec(),
            Scenario::Drain | Scenario::Dispatch | Scenario::Preempt | Scenario::Keys => {
                Self::CHURN_AND_CUTS.to_vec()
            }
            Scenario::Locks if rng.chance(500) => Self::LONG_CUTS.to_vec(),
            Scenario::Locks => Self::OF_LEADERS.to_vec(),
            Scenario::Storm | Scenario::Leased | Scenario::Rolling | Scenario::Operators => {
                let mut few: Vec<_> = Self::ALL.into_iter().filter(|_| rng.chance(350)).collect();
                if matches!(scenario, Scenario::Leased | Scenario::Operators) {
                    few.retain(|family| *family != Self::Clocks);
                    few.push(Self::LeaderCuts);
                }
                if few.is_empty() {
                    vec![Self::Cuts, Self::DaemonKills, Self::StepDowns]
                } else {
                    few
                }
            }
            Scenario::Calm
            | Scenario::Lossy
            | Scenario::Outage
            | Scenario::OneServer
            | Scenario::Offline
            | Scenario::SessionStorm
            | Scenario::Stuck => Vec::new(),
            Scenario::Partition | Scenario::PartitionWindow => vec![Self::Cuts],
            Scenario::Shutdown | Scenario::ShutdownWindow => vec![Self::Reboots],
            Scenario::Handover => vec![
                Self::SlowLogs,
                Self::SlowServers,
                Self::LeaderCuts,
                Self::Drops,
                Self::QuickRestarts,
                Self::Stalls,
            ],
            Scenario::Log => vec![
                Self::Stalls,
                Self::SlowLogs,
                Self::Lags,
                Self::LeaderCuts,
                Self::StepDowns,
            ],
            Scenario::Lagging => vec![
                Self::Lags,
                Self::Drops,
                Self::LeaderCuts,
                Self::QuickRestarts,
                Self::Cuts,
            ],
            Scenario::Damaged => vec![Self::Damage, Self::DaemonKills],
            Scenario::Leaders => Self::LEADERS.to_vec(),
        }
    }
}

/// What faults can hit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub nodes: u32,
    pub servers: u8,
    pub until: Nanos,
}

/// The first faults come when the cluster stands.
const BEGIN: Nanos = 12 * SECOND;

pub(super) fn draw(
    families: &[Family],
    scenario: Scenario,
    size: Size,
    rng: &mut Rng,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut add = |at: Nanos, lasts: Nanos, kind: FaultKind| {
        let number = u32::try_from(faults.len()).unwrap_or(u32::MAX);
        let lasts = lasts.min(size.until.saturating_sub(at));
        faults.push(Fault {
            number,
            at,
            lasts,
            kind,
        });
    };
    match scenario {
        Scenario::Lossy => {
            let weather = Weather {
                loss: 300,
                base: MILLI,
                jitter: 300 * MILLI,
            };
            let links = Links::OfNodes;
            add(BEGIN, Nanos::MAX, FaultKind::Storm { weather, links });
        }
        Scenario::Outage => {
            let lasts = rng.between(2, 40) * SECOND;
            add(BEGIN + SECOND, lasts, FaultKind::CutAll);
        }
        Scenario::OneServer => one_server(size, rng, &mut add),
        Scenario::Stuck => {
            for node in 0..size.nodes / 2 {
                let at = BEGIN + rng.below(20 * SECOND);
                add(at, Nanos::MAX, FaultKind::DiskFull { node });
            }
        }
        Scenario::Offline => {
            for node in 0..size.nodes.min(3) {
                let at = BEGIN + rng.below(5 * SECOND);
                let way = Way::Both;
                add(at, Nanos::MAX, FaultKind::CutNode { node, way });
                let off = rng.between(SECOND, 5 * SECOND);
                add(at + SECOND, off, FaultKind::Reboot { node });
            }
        }
        _ => {}
    }
    if families.is_empty() {
        return faults;
    }
    // The more nodes, the more faults, so that a large cluster is not a quiet one.
    let mut gap = (4 * SECOND / u64::from(size.nodes / 16 + 1)).max(100 * MILLI);
    if scenario == Scenario::Locks {
        // Each new leader gives a lock its whole time anew: with more of them none would end.
        gap = 12 * SECOND;
    }
    let mut at = BEGIN;
    while at < size.until {
        let family = families[rng.offset(families.len())];
        let (lasts, kind) = one(family, size, rng);
        add(at, lasts, kind);
        at += rng.between(gap / 8, gap * 2);
    }
    faults
}

/// The faults of a storm, after all others.
pub(super) fn draw_storm(size: Size, rng: &mut Rng, faults: &mut Vec<Fault>) -> Storm {
    storm::draw(size, rng, &mut |at, lasts, kind| {
        let number = u32::try_from(faults.len()).unwrap_or(u32::MAX);
        let lasts = lasts.min(size.until.saturating_sub(at));
        faults.push(Fault {
            number,
            at,
            lasts,
            kind,
        });
    })
}

/// One server after the other in trouble, each well again for a while before the next.
fn one_server(size: Size, rng: &mut Rng, add: &mut impl FnMut(Nanos, Nanos, FaultKind)) {
    let mut at = BEGIN;
    while at < size.until {
        let lasts = rng.between(SECOND, 12 * SECOND);
        let server = u8::try_from(rng.below(u64::from(size.servers))).unwrap_or(0);
        match rng.below(4) {
            0 => add(at, lasts, FaultKind::KillServer { server }),
            1 => add(at, lasts, FaultKind::CutServer { server }),
            2 => add(at, 0, FaultKind::DropConns { server }),
            _ => {
                for node in 0..size.nodes {
                    add(at, lasts, FaultKind::CutLink { node, server });
                }
            }
        }
        at += lasts + 12 * SECOND;
    }
}

fn one(family: Family, size: Size, rng: &mut Rng) -> (Nanos, FaultKind) {
    let node = u32::try_from(rng.below(u64::from(size.nodes))).unwrap_or(0);
    let server = u8::try_from(rng.below(u64::from(size.servers))).unwrap_or(0);
    // Mostly around the detection time, sometimes far beyond it.
    let span = match rng.below(4) {
        0 => rng.between(50 * MILLI, 2 * SECOND),
        1 | 2 => rng.between(2 * SECOND, 8 * SECOND),
        _ => rng.between(8 * SECOND, 45 * SECOND),
    };
    match family {
        Family::Cuts => match rng.below(4) {
            0 => (span, FaultKind::CutLink { node, server }),
            way => {
                let way = match way {
                    1 => Way::ToServer,
                    2 => Way::ToNode,
                    _ => Way::Both,
                };
                (span, FaultKind::CutNode { node, way })
            }
        },
        Family::Outages => (span / 2, FaultKind::CutAll),
        Family::ServerCuts => (span, FaultKind::CutServer { server }),
        Family::ServerKills => (span, FaultKind::KillServer { server }),
        Family::Stalls => (stall(span, rng), FaultKind::Stall { server }),
        Family::SlowServers => {
            let extra = rng.between(5 * MILLI, 400 * MILLI);
            (span, FaultKind::SlowServer { server, extra })
        }
        Family::StepDowns => (0, FaultKind::StepDown),
        Family::DaemonKills => {
            let lasts = rng.between(20 * MILLI, span.max(40 * MILLI));
            (lasts, FaultKind::KillDaemon { node })
        }
        Family::Reboots => (span, FaultKind::Reboot { node }),
        Family::Disks if rng.chance(500) => (span, FaultKind::DiskFull { node }),
        Family::Disks => (span, FaultKind::DiskSlow { node }),
        Family::Weather => {
            let weather = Weather {
                loss: rng.below(300),
                base: rng.between(MILLI / 10, 20 * MILLI),
                jitter: rng.between(MILLI, 200 * MILLI),
            };
            let links = Links::All;
            (span, FaultKind::Storm { weather, links })
        }
        Family::SlowLogs => {
            let extra = rng.between(50 * MILLI, 1500 * MILLI);
            (span, FaultKind::SlowLog { extra })
        }
        Family::Lags => {
            let lag = rng.between(200 * MILLI, 5 * SECOND);
            (span, FaultKind::LagServer { server, lag })
        }
        Family::LeaderCuts => (span.min(8 * SECOND), FaultKind::CutLeader),
        Family::LongLeaderCuts => (span + 22 * SECOND, FaultKind::CutLeader),
        Family::Drops => (0, FaultKind::DropConns { server }),
        Family::QuickRestarts => {
            let lasts = rng.between(5 * MILLI, 300 * MILLI);
            (lasts, FaultKind::KillDaemon { node })
        }
        Family::Damage => {
            let lasts = rng.between(5 * MILLI, SECOND);
            (lasts, FaultKind::DamageJournal { node })
        }
        Family::Clocks => {
            let far = i64::try_from(rng.below(20 * SECOND)).unwrap_or(0);
            let by = far - 10_000_000_000;
            (0, FaultKind::ClockJump { server, by })
        }
    }
}

/// How long a process stands still: mostly about as long as an election takes.
fn stall(span: Nanos, rng: &mut Rng) -> Nanos {
    let short = rng.between(100 * MILLI, 2 * SECOND);
    if rng.chance(750) { short } else { span }
}
