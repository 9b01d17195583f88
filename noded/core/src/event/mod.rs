//! What the world tells the core: answers to effects, and what happened unasked.

mod run;
mod session;

use protocol_model::AllocId;

use crate::alloc_resources::AllocResources;
use crate::effect::AllocHook;
use crate::key::{Attempt, RunKey};
pub use run::{Exit, ExitStatus, KeptPhase, KeptRun, Recovery, RunEvent, ScriptEnd};
pub use session::{
    BatchAck, DesiredAlloc, Ending, HeartbeatAck, ItemResult, Refused, RefusedReason, SessionEvent,
    WatchDelta, WatchMap, Welcome,
};

/// Something that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// In the session of an attempt. Events of an earlier attempt are dropped.
    Session {
        /// The attempt.
        attempt: Attempt,
        /// What.
        event: SessionEvent,
    },
    /// To an allocation as a whole.
    Alloc {
        /// The allocation.
        alloc: AllocId,
        /// What.
        event: AllocEvent,
    },
    /// Keeper answered the newest [`Effect::TendLeases`](crate::Effect::TendLeases).
    Leases(LeasesAnswer),
    /// To one run of a task. Events of an earlier run are dropped.
    Run {
        /// The run.
        run: RunKey,
        /// What.
        event: RunEvent,
    },
}

/// What keeper makes of leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeasesAnswer {
    /// It holds them as it was asked to.
    Done,
    /// It does not; what it held before it holds still.
    Refused,
}

/// What happens to an allocation as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocEvent {
    /// Every hook is done.
    Prepared {
        /// Their results, in place of those before.
        resources: AllocResources,
    },
    /// A hook failed; the later ones were not run.
    PrepareFailed {
        /// Which.
        hook: AllocHook,
        /// Why, for people.
        message: String,
    },
    /// Nothing of it is left.
    Destroyed,
}
