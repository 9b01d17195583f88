//! Planted bugs: each is a hole that the design closes, opened again. A search that does not find
//! them proves nothing.

use clap::ValueEnum;

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Mutant {
    /// A silent node that knocks is ready at once.
    UngatedReady,
    /// An expiry says whom it means, and not in which session.
    ExpiryWithoutEpoch,
    /// A complete report counts in whatever session the node is by then.
    SyncWithoutEpoch,
    /// A Hello that is heard again is another Hello.
    NonceIgnored,
    /// The watch begins when it is asked for.
    WatchBeforeSync,
    /// A server welcomes a node by what it has applied itself, however far that is behind, and the
    /// node believes it.
    StaleAnswer,
    /// The node does not wait for its disk.
    NoSync,
    /// A daemon begins without what its journal says of the watch.
    ForgetsWatermark,
    /// A node that owes its report is heard all the same.
    EarlyUpdates,
    /// A complete report that says what the last one said is not sent.
    EqualSyncDropped,
    /// Of a pair that has to be sorted out, both are stopped.
    BothStopped,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::UngatedReady,
        Self::ExpiryWithoutEpoch,
        Self::SyncWithoutEpoch,
        Self::NonceIgnored,
        Self::WatchBeforeSync,
        Self::StaleAnswer,
        Self::NoSync,
        Self::ForgetsWatermark,
        Self::EarlyUpdates,
        Self::EqualSyncDropped,
        Self::BothStopped,
    ];

    /// Whether it shows only in that something never comes about.
    pub fn only_hangs(self) -> bool {
        self == Self::EqualSyncDropped
    }
}
