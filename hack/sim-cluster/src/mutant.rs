//! Planted bugs: machines, disks and hosts that break a promise which everything rests on. A
//! simulator that does not find them proves nothing.

use clap::ValueEnum;
use controlplane_server::PlantedBug;

use crate::schedule::Scenario;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Mutant {
    /// Servers' disks acknowledge syncs that do nothing.
    LyingDisks,
    /// A server that is started again has its disk as it was when it first came up.
    OldDisk,
    /// Nodes begin with an empty journal whenever their daemon is started again.
    ForgetfulNodes,
    /// A node says that a task has ended which goes on.
    TasksOutlive,
    /// Keeper is told no lease: it is the daemon's alone to end what nobody hears.
    LeaseWithDaemon,
    /// Keeper is told of each lease once, and of no more time.
    LeaseOnce,
    /// The clocks that say how long hosts are up jump ahead now and then.
    JumpingHosts,
    /// A daemon is told late that a task has started: it takes it for one that is about to.
    StartsToldLate,
    /// Servers answer consistent reads without a read barrier.
    NoReadBarrier,
    /// Leaders do not judge the caller of a change once more.
    NoSecondLook,
    /// Servers keep the first caller of a connection for all its requests.
    CallerKept,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::LyingDisks,
        Self::OldDisk,
        Self::ForgetfulNodes,
        Self::TasksOutlive,
        Self::LeaseWithDaemon,
        Self::LeaseOnce,
        Self::JumpingHosts,
        Self::StartsToldLate,
        Self::NoReadBarrier,
        Self::NoSecondLook,
        Self::CallerKept,
    ];

    /// The faults that bring it to light soonest.
    pub fn scenario(self) -> Scenario {
        match self {
            Self::LyingDisks => Scenario::Power,
            Self::OldDisk => Scenario::Leaders,
            Self::LeaseOnce | Self::JumpingHosts => Scenario::Calm,
            Self::StartsToldLate => Scenario::Partition,
            Self::ForgetfulNodes | Self::TasksOutlive => Scenario::Nodes,
            Self::LeaseWithDaemon => Scenario::Leased,
            Self::NoReadBarrier | Self::NoSecondLook | Self::CallerKept => Scenario::Access,
        }
    }

    /// The bug that is planted in servers themselves.
    pub fn in_servers(self) -> Option<PlantedBug> {
        match self {
            Self::NoReadBarrier => Some(PlantedBug::NoReadBarrier),
            Self::NoSecondLook => Some(PlantedBug::NoSecondLook),
            Self::CallerKept => Some(PlantedBug::CallerKept),
            Self::LyingDisks
            | Self::OldDisk
            | Self::ForgetfulNodes
            | Self::TasksOutlive
            | Self::LeaseWithDaemon
            | Self::LeaseOnce
            | Self::JumpingHosts
            | Self::StartsToldLate => None,
        }
    }
}
