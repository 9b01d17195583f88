//! What the core's loop is woken by.

use std::sync::Arc;

use noded_core::alloc_runner::{CommandError, RestartScope, SignalScope};
use noded_core::effect::Lane;
use noded_core::event::SessionEvent;
use noded_core::key::Attempt;
use noded_core::update_batcher::Backlog;
use noded_core::{AllocSpec, Event, NotCollected, RunKey};
use protocol_model::{AllocId, ForeignAlloc, Node};
use tokio::sync::oneshot;

use crate::calls::foreign::ForeignWish;
use crate::config::Config;
use crate::keeper_link::KeeperNews;
use crate::upkeep::DiskUse;

/// One thing that happened.
#[derive(Debug)]
pub enum Input {
    /// For the core as it is.
    Event(Event),
    /// In the session of an attempt, with the list of servers where the message had one.
    Session {
        /// The attempt.
        attempt: Attempt,
        /// What.
        event: SessionEvent,
        /// The servers that the message named; empty = it named none.
        servers: Vec<String>,
    },
    /// From keeper.
    Keeper(KeeperNews),
    /// An effect of an allocation's lane is done, and its events were sent before this.
    LaneDone {
        /// The lane.
        lane: Lane,
        /// The run, where the effect was one that can be interrupted.
        interruptible: Option<RunKey>,
    },
    /// What the host is now; or why it cannot run tasks any more.
    Looked(Result<Box<Node>, String>),
    /// The configuration was read again.
    Reconfigured(Arc<Config>),
    /// How full the disk with allocations is.
    DiskMeasured(DiskUse),
    /// The bytes that the directories of allocations occupy.
    DisksMeasured(Vec<(AllocId, u64)>),
    /// The kernel killed a process of each of these runs for want of memory.
    OomKills(Vec<RunKey>),
    /// A question or command of a call.
    Ask(Question),
}

impl Input {
    /// A word for it, for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Event(Event::Session { .. }) | Self::Session { .. } => "session",
            Self::Event(Event::Alloc { .. }) => "allocation",
            Self::Event(Event::Run { .. }) => "run",
            Self::Event(Event::Leases(_)) => "leases",
            Self::Keeper(_) => "keeper",
            Self::LaneDone { .. } => "lane",
            Self::Looked(_)
            | Self::Reconfigured(_)
            | Self::DiskMeasured(_)
            | Self::DisksMeasured(_) => "upkeep",
            Self::OomKills(_) => "kills",
            Self::Ask(_) => "question",
        }
    }
}

/// What calls want of the core.
#[derive(Debug)]
pub enum Question {
    /// What is known of an allocation.
    Alloc {
        /// Which.
        alloc: AllocId,
        /// The answer; `None` = this node does not have it.
        answer: oneshot::Sender<Option<AllocView>>,
    },
    /// What waits to be told to the control plane.
    Backlog {
        /// The answer.
        answer: oneshot::Sender<Backlog>,
    },
    /// Destroy every allocation whose end the control plane has recorded.
    CollectGarbage {
        /// It is decided what goes; the removals follow.
        answer: oneshot::Sender<()>,
    },
    /// Destroy one allocation whose end the control plane has recorded.
    CollectAlloc {
        /// Which.
        alloc: AllocId,
        /// Whether it goes; the removal follows.
        answer: oneshot::Sender<Result<(), NotCollected>>,
    },
    /// Allocations that the cluster, as it was restored, does not know.
    Foreign {
        /// What is to become of them.
        wish: ForeignWish,
        /// Those that there are, or were until now.
        answer: oneshot::Sender<Vec<ForeignAlloc>>,
    },
    /// Restart tasks.
    Restart {
        /// Of which allocation.
        alloc: AllocId,
        /// Which.
        scope: RestartScope,
        /// Whether that makes sense.
        answer: oneshot::Sender<Result<(), CommandError>>,
    },
    /// Signal tasks.
    Signal {
        /// Of which allocation.
        alloc: AllocId,
        /// Which.
        scope: SignalScope,
        /// The signal's name.
        signal: String,
        /// Whether that makes sense.
        answer: oneshot::Sender<Result<(), CommandError>>,
    },
}

/// An allocation as calls see it.
#[derive(Debug, Clone)]
pub struct AllocView {
    /// What is wanted of it.
    pub spec: Arc<AllocSpec>,
    /// The newest run of each task, and whether it has a process.
    pub runs: Vec<(RunKey, Liveness)>,
    /// Whether nothing of it will run again.
    pub over: bool,
}

/// Whether a run has a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It has.
    Alive,
    /// It has none.
    Ended,
}
