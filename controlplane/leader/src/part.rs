//! What the parts of a leader have in common: [`crate::Leader`] asks all of them, in one order.

use std::time::Duration;

use controlplane_state::{Command, Signal, Snapshot};
use protocol_model::EvalId;

use crate::time::Now;

/// What a part wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// This command has to get into the log.
    Command(Command),
}

/// What was applied: the signals of some entries, and the state after them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied<'a> {
    pub(crate) index: u64,
    pub(crate) signals: &'a [Signal],
    pub(crate) snapshot: &'a Snapshot,
}

/// One thing that only the leader does. A part acts on what it is told and ignores the rest; it
/// knows no other part.
pub(crate) trait LeaderPart {
    /// Entries were applied.
    fn on_applied(&mut self, _applied: Applied<'_>, _now: Now) {}

    /// The leader does not receive what nodes send: no majority answers it, or it is behind
    /// with what it receives. Nodes may be silent for `silence`. Called again and again.
    fn on_unheard(&mut self, _silence: Duration, _now: Now) {}

    /// The next thing to do, if there is one. `ids` draws an id for an evaluation.
    fn poll(
        &mut self,
        _snapshot: &Snapshot,
        _ids: &mut dyn FnMut() -> EvalId,
        _now: Now,
    ) -> Option<Effect> {
        None
    }

    /// The last effect of any part did not get into the log, or its outcome is unknown.
    fn on_failed(&mut self, _effect: &Effect, _now: Now) {}

    /// The state, or the log, will never take the last effect of any part; `why` is for people.
    fn on_refused(&mut self, _effect: &Effect, _why: &str) {}

    /// When there is something to do, by the monotonic clock.
    fn poll_timeout(&self) -> Option<Duration>;
}
