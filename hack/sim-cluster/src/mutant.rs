//! Planted bugs: machines, disks and hosts that break a promise which everything rests on. A
//! simulator that does not find them proves nothing.

use clap::ValueEnum;

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
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::LyingDisks,
        Self::OldDisk,
        Self::ForgetfulNodes,
        Self::TasksOutlive,
        Self::LeaseWithDaemon,
        Self::LeaseOnce,
        Self::JumpingHosts,
        Self::StartsToldLate,
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
        }
    }
}
