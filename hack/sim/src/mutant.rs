//! Planted bugs: each is a hole that the design closes, opened again. A simulator that does not
//! find them proves nothing.

use clap::ValueEnum;

use crate::schedule::Scenario;
use crate::silence::Trial;

/// A planted bug. What it opens: [`Mutant::hole`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Mutant {
    UngatedReady,
    EqualSyncDropped,
    TwoEntries,
    ExpiryWithoutEpoch,
    StaleAnswer,
    LongTakeOver,
    TimersLostAtFailover,
    SlowDetection,
    OneEntryPerExpiry,
    BatchWithoutEpoch,
    WatchBeforeSync,
    AckFromCommit,
    NoSync,
    KeeperForgetsEpochs,
    ForgetsWatermark,
    SilentWatch,
    WaitsAfterReboot,
    WindowsNeverEnd,
    OwedForEver,
    LeaseWithDaemon,
    ConfirmsAlone,
    PendingForEver,
    StartsAfterReboot,
    NobodyStandsBy,
    ResumesFromOldState,
    NoncePerAttempt,
    RestartUntold,
    HeartbeatsInOrder,
    RestsInDoubt,
    ReplacedTwice,
    PlacedBeside,
    RollsAllAtOnce,
    RolloutsUnwatched,
    PromotionsForgotten,
    OlderInNewVersion,
    CanariesStay,
    OneCanaryMore,
    ConfirmationsDropped,
    ConfirmsLeaderless,
    OneNodePerExpiry,
    StopsAllOfIt,
    LeftOutStays,
    StatusAside,
    LooksLater,
    AckBeforeMajority,
    IndexTwice,
    FactsUnkept,
    SilentStays,
    PredecessorUntold,
    WaitsShort,
    LatenessUntold,
    NewestFirst,
    UnboundedQueue,
    PaceUntold,
    AbandonedServed,
    LaunchesForgotten,
    LaunchedAgain,
    LaunchedBeside,
    DrainedAtOnce,
    DeadlinesForgotten,
    SystemLeavesFirst,
    DrainsNeverOver,
    DrainsDiscontinued,
    TokensForgotten,
    PayloadsMixed,
    ChildrenUnseen,
    DispatchedEarly,
    VictimsTooNear,
    OneVictimMore,
    VictimsUnseen,
    VictimsUnawaited,
    SilentUnsigned,
    SealsForgotten,
    ResignedOnce,
    RekeysOverNewer,
    LocksCountFromAcquisition,
    LockDelayForgotten,
    RenewedAlone,
    RenewedAfterEnd,
    LocksNamedByPath,
    LocksNeverEnd,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 81] = [
        Self::UngatedReady,
        Self::EqualSyncDropped,
        Self::TwoEntries,
        Self::ExpiryWithoutEpoch,
        Self::StaleAnswer,
        Self::LongTakeOver,
        Self::TimersLostAtFailover,
        Self::SlowDetection,
        Self::OneEntryPerExpiry,
        Self::BatchWithoutEpoch,
        Self::WatchBeforeSync,
        Self::AckFromCommit,
        Self::NoSync,
        Self::KeeperForgetsEpochs,
        Self::ForgetsWatermark,
        Self::SilentWatch,
        Self::WaitsAfterReboot,
        Self::WindowsNeverEnd,
        Self::OwedForEver,
        Self::LeaseWithDaemon,
        Self::ConfirmsAlone,
        Self::PendingForEver,
        Self::StartsAfterReboot,
        Self::NobodyStandsBy,
        Self::ResumesFromOldState,
        Self::NoncePerAttempt,
        Self::RestartUntold,
        Self::HeartbeatsInOrder,
        Self::RestsInDoubt,
        Self::ReplacedTwice,
        Self::PlacedBeside,
        Self::RollsAllAtOnce,
        Self::RolloutsUnwatched,
        Self::PromotionsForgotten,
        Self::OlderInNewVersion,
        Self::CanariesStay,
        Self::OneCanaryMore,
        Self::ConfirmationsDropped,
        Self::ConfirmsLeaderless,
        Self::OneNodePerExpiry,
        Self::StopsAllOfIt,
        Self::LeftOutStays,
        Self::StatusAside,
        Self::LooksLater,
        Self::AckBeforeMajority,
        Self::IndexTwice,
        Self::FactsUnkept,
        Self::SilentStays,
        Self::PredecessorUntold,
        Self::WaitsShort,
        Self::LatenessUntold,
        Self::NewestFirst,
        Self::UnboundedQueue,
        Self::PaceUntold,
        Self::AbandonedServed,
        Self::LaunchesForgotten,
        Self::LaunchedAgain,
        Self::LaunchedBeside,
        Self::DrainedAtOnce,
        Self::DeadlinesForgotten,
        Self::SystemLeavesFirst,
        Self::DrainsNeverOver,
        Self::DrainsDiscontinued,
        Self::TokensForgotten,
        Self::PayloadsMixed,
        Self::ChildrenUnseen,
        Self::DispatchedEarly,
        Self::VictimsTooNear,
        Self::OneVictimMore,
        Self::VictimsUnseen,
        Self::VictimsUnawaited,
        Self::SilentUnsigned,
        Self::SealsForgotten,
        Self::ResignedOnce,
        Self::RekeysOverNewer,
        Self::LocksCountFromAcquisition,
        Self::LockDelayForgotten,
        Self::RenewedAlone,
        Self::RenewedAfterEnd,
        Self::LocksNamedByPath,
        Self::LocksNeverEnd,
    ];

    /// Which hole it opens, by the numbers of the table in the reconnect design where it is one of
    /// those.
    #[expect(
        clippy::too_many_lines,
        reason = "a table: a row or two for each planted bug"
    )]
    pub fn hole(self) -> &'static str {
        match self {
            Self::UngatedReady => "1: a silent node is ready at its first Hello, without a report",
            Self::EqualSyncDropped => "2: a report that equals the last one is not sent",
            Self::TwoEntries => "3: a node's status and the evaluations it causes are two entries",
            Self::ExpiryWithoutEpoch => {
                "4: an expiry that was decided for one session ends another"
            }
            Self::StaleAnswer => "5: a node takes the map of a server that lags behind it",
            Self::LongTakeOver => "6: a new leader gives every node 300 s",
            Self::TimersLostAtFailover => "6: a new leader watches nobody it has not heard",
            Self::SlowDetection => "7: the more nodes, the slower silence is noticed",
            Self::OneEntryPerExpiry => "8: each expiry is an entry of its own",
            Self::SilentWatch => {
                "9: a node is not told of what is placed on it, and nobody notices"
            }
            Self::WaitsAfterReboot => {
                "10: a host that boots while it is cut off starts nothing before a server answers"
            }
            Self::BatchWithoutEpoch => "sessions: a batch of an earlier session is taken in",
            Self::WatchBeforeSync => "sessions: the watch starts before the report is taken in",
            Self::AckFromCommit => "updates 8: a batch is acknowledged although it was refused",
            Self::NoSync => "durability: the journal is never synced before its word is given",
            Self::KeeperForgetsEpochs => "node: keeper starts a run epoch that it has seen",
            Self::WindowsNeverEnd => {
                "sessions: a node stays disconnected when its windows are over"
            }
            Self::OwedForEver => {
                "2: a session whose report got lost is kept, and so is what loses the report"
            }
            Self::LeaseWithDaemon => {
                "leases: a group that stops itself goes on while its daemon is dead"
            }
            Self::ConfirmsAlone => {
                "leases: a leader that hears no majority any more confirms heartbeats"
            }
            Self::PendingForEver => {
                "9: what a node does not accept, although it is ready, waits there for ever"
            }
            Self::StartsAfterReboot => {
                "10: a host that boots while it is cut off starts what is elsewhere by now"
            }
            Self::NobodyStandsBy => {
                "sessions: a node that loses its server has no connection to another one"
            }
            Self::ResumesFromOldState => {
                "sessions: a follower resumes a session from a state that is behind"
            }
            Self::NoncePerAttempt => "sessions: each knock draws a nonce, and ends the one before",
            Self::RestartUntold => "sessions: a daemon that was started anew is resumed",
            Self::HeartbeatsInOrder => {
                "sessions: a heartbeat that is lost holds back those that come after it"
            }
            Self::RestsInDoubt => "sessions: heartbeats stay rare although answers are missing",
            Self::ReplacedTwice => "silence: two take the place of a silent allocation",
            Self::PlacedBeside => {
                "leases: a successor is placed while the one before is told to stop"
            }
            Self::RollsAllAtOnce => {
                "rollouts: the next step does not wait for the last one's health"
            }
            Self::RolloutsUnwatched => "rollouts: one that makes no progress goes on for ever",
            Self::PromotionsForgotten => "canaries: those that are healthy are never promoted",
            Self::OlderInNewVersion => {
                "canaries: what dies of the older version comes back in the new one"
            }
            Self::CanariesStay => "canaries: those of a deployment that is over run on",
            Self::OneCanaryMore => "canaries: one more than is asked for is placed",
            Self::ConfirmationsDropped => {
                "leases: what the leader confirms is not told on by the server that asked"
            }
            Self::ConfirmsLeaderless => "leases: a server confirms heartbeats while nobody leads",
            Self::OneNodePerExpiry => "8: each expiry is an entry of its own, one after the other",
            Self::StopsAllOfIt => {
                "leases: with one of a leased group that has to leave all of it is stopped"
            }
            Self::LeftOutStays => {
                "sessions: what a complete report does not name counts as unchanged"
            }
            Self::StatusAside => "sessions: a node leaves ready by an entry about a job",
            Self::LooksLater => {
                "3: whoever is asked to look at what a silent node had does so half a minute later"
            }
            Self::AckBeforeMajority => {
                "durability: a wish is acknowledged before its entry is on a majority"
            }
            Self::IndexTwice => "log: a new leader's first entry has the index of a committed one",
            Self::FactsUnkept => "facts: a server acknowledges them and keeps them nowhere",
            Self::SilentStays => {
                "silence: whom an operator stops stays as long as its node is silent"
            }
            Self::PredecessorUntold => {
                "updates: a node is not told whose place on it an allocation takes"
            }
            Self::WaitsShort => "storms: a node waits for no server longer than a moment",
            Self::LatenessUntold => "storms: a server that is late does not tell the leader",
            Self::NewestFirst => "storms: the node that came last is served first",
            Self::UnboundedQueue => "storms: a server begins everything that arrives",
            Self::PaceUntold => "storms: a late server asks for no longer pace of heartbeats",
            Self::AbandonedServed => "storms: a server serves attempts that were given up",
            Self::LaunchesForgotten => "periodic: a job that is due is not launched",
            Self::LaunchedAgain => "periodic: a time that is not above the record is launched",
            Self::LaunchedBeside => {
                "periodic: a launch does not wait for the one before although it should"
            }
            Self::DrainedAtOnce => "drains: all of a node is asked to leave at once",
            Self::DeadlinesForgotten => "drains: what is left at the deadline stays",
            Self::SystemLeavesFirst => "drains: system jobs leave with the first",
            Self::DrainsNeverOver => "drains: a node that is empty goes on draining",
            Self::DrainsDiscontinued => "drains: a new leader continues none",
            Self::TokensForgotten => "dispatch: a child is made without its token",
            Self::PayloadsMixed => "dispatch: a child has another one's payload",
            Self::ChildrenUnseen => "dispatch: a child is made without its evaluation",
            Self::DispatchedEarly => "dispatch: a child is acknowledged before it is on a majority",
            Self::VictimsTooNear => "preemption: one of nearly the same priority is evicted",
            Self::OneVictimMore => "preemption: one more is evicted than is needed",
            Self::VictimsUnseen => "preemption: jobs of the evicted are not looked at",
            Self::VictimsUnawaited => "preemption: nobody waits for the end of the evicted",
            Self::SilentUnsigned => "keys: a key that only silent allocations need is collected",
            Self::SealsForgotten => "keys: a key that seals variables is collected",
            Self::ResignedOnce => "keys: only the first allocations of a removed key move",
            Self::RekeysOverNewer => "keys: a rekey replaces a value that was written since",
            Self::LocksCountFromAcquisition => {
                "locks: a new leader counts a lock's time from its acquisition"
            }
            Self::LockDelayForgotten => "locks: a new leader frees a lock that is delayed",
            Self::RenewedAlone => "locks: a leader renews a lock without asking a majority",
            Self::RenewedAfterEnd => "locks: a lock is renewed whose end was proposed",
            Self::LocksNamedByPath => "locks: an end names the variable and not the lock",
            Self::LocksNeverEnd => "locks: a lock that nobody renews does not end",
            Self::ForgetsWatermark => "5: a daemon forgets its watermark when it is restarted",
        }
    }

    /// The faults that bring it to light soonest.
    pub fn scenario(self) -> Scenario {
        match self {
            Self::LongTakeOver
            | Self::TimersLostAtFailover
            | Self::TwoEntries
            | Self::NoncePerAttempt
            | Self::AckBeforeMajority
            | Self::IndexTwice => Scenario::Leaders,
            Self::StaleAnswer
            | Self::ResumesFromOldState
            | Self::ExpiryWithoutEpoch
            | Self::AckFromCommit => Scenario::Lagging,
            Self::OneEntryPerExpiry | Self::OneNodePerExpiry => Scenario::Outage,
            Self::NobodyStandsBy => Scenario::OneServer,
            Self::BatchWithoutEpoch | Self::RestartUntold => Scenario::Handover,
            Self::WaitsAfterReboot | Self::StartsAfterReboot => Scenario::Offline,
            Self::KeeperForgetsEpochs => Scenario::Damaged,
            Self::WindowsNeverEnd | Self::ReplacedTwice => Scenario::PartitionWindow,
            Self::OwedForEver | Self::ConfirmationsDropped | Self::FactsUnkept => Scenario::Calm,
            Self::PendingForEver => Scenario::Stuck,
            Self::HeartbeatsInOrder | Self::RestsInDoubt => Scenario::Lossy,
            Self::LeaseWithDaemon
            | Self::ConfirmsAlone
            | Self::ConfirmsLeaderless
            | Self::StopsAllOfIt
            | Self::PlacedBeside => Scenario::Leased,
            Self::RollsAllAtOnce | Self::RolloutsUnwatched | Self::PredecessorUntold => {
                Scenario::Rolling
            }
            Self::LaunchesForgotten | Self::LaunchedAgain | Self::LaunchedBeside => {
                Scenario::Periodic
            }
            Self::DrainedAtOnce
            | Self::DeadlinesForgotten
            | Self::SystemLeavesFirst
            | Self::DrainsNeverOver
            | Self::DrainsDiscontinued => Scenario::Drain,
            Self::TokensForgotten
            | Self::PayloadsMixed
            | Self::ChildrenUnseen
            | Self::DispatchedEarly => Scenario::Dispatch,
            Self::VictimsTooNear
            | Self::OneVictimMore
            | Self::VictimsUnseen
            | Self::VictimsUnawaited => Scenario::Preempt,
            Self::PromotionsForgotten
            | Self::OlderInNewVersion
            | Self::CanariesStay
            | Self::OneCanaryMore => Scenario::Canary,
            Self::SilentUnsigned
            | Self::SealsForgotten
            | Self::ResignedOnce
            | Self::RekeysOverNewer => Scenario::Keys,
            Self::LocksCountFromAcquisition
            | Self::LockDelayForgotten
            | Self::RenewedAlone
            | Self::RenewedAfterEnd
            | Self::LocksNamedByPath
            | Self::LocksNeverEnd => Scenario::Locks,
            Self::SilentStays => Scenario::Operators,
            Self::WaitsShort
            | Self::LatenessUntold
            | Self::NewestFirst
            | Self::UnboundedQueue
            | Self::PaceUntold
            | Self::AbandonedServed => Scenario::SessionStorm,
            _ => Scenario::Storm,
        }
    }

    /// The trial that judges it, where no invariant does: it shows itself among many nodes only.
    pub fn trial(self) -> Option<Trial> {
        (self == Self::OneNodePerExpiry).then_some(Trial::Outage)
    }
}
