//! When the control plane last heard this node, by the wall clock, as the journal has it: a host
//! that boots while it is cut off may start again what is still tolerated on a silent node.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_model::{AllocId, UnixNanos};

use crate::time::{Moment, Now};

/// The journal is behind by at most this part of the shortest window...
const JOURNAL_PART: u32 = 8;
/// ... and by no less and no more than these.
const JOURNAL_STEP_MIN: Duration = Duration::from_secs(1);
const JOURNAL_STEP_MAX: Duration = Duration::from_secs(60);

/// See the top of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct LastHeard {
    /// The disconnect windows of allocations that are not over.
    windows: BTreeMap<AllocId, Duration>,
    journaled: Option<UnixNanos>,
}

impl LastHeard {
    /// As an earlier daemon left it.
    pub(super) fn new(journaled: Option<UnixNanos>) -> Self {
        Self {
            windows: BTreeMap::new(),
            journaled,
        }
    }

    /// How long an allocation is tolerated on a silent node; `None` = not at all, or it is over.
    pub(super) fn set(&mut self, alloc: AllocId, window: Option<Duration>) {
        match window {
            Some(window) => self.windows.insert(alloc, window),
            None => self.windows.remove(&alloc),
        };
    }

    /// The newest time in the journal.
    pub(super) fn journaled(&self) -> Option<UnixNanos> {
        self.journaled
    }

    /// The time to be journaled, where the journal is too far behind. `confirmed` is when the
    /// newest heartbeat was sent whose receipt the leader has confirmed.
    pub(super) fn poll_journal(
        &mut self,
        confirmed: Option<Moment>,
        now: Now,
    ) -> Option<UnixNanos> {
        let age = now.moment.since(confirmed?);
        let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        let heard = UnixNanos(now.wall.0.saturating_sub(age));
        // A wall clock that was set back is news, too.
        let is_known = |step| {
            let journaled = self.journaled;
            journaled.is_some_and(|at| at <= heard && heard < at.saturating_add(step))
        };
        // By the shortest step there is first: this is asked with every heartbeat.
        if is_known(JOURNAL_STEP_MIN) {
            return None;
        }
        let shortest = *self.windows.values().min()?;
        if is_known((shortest / JOURNAL_PART).clamp(JOURNAL_STEP_MIN, JOURNAL_STEP_MAX)) {
            return None;
        }
        self.journaled = Some(heard);
        Some(heard)
    }
}

/// Whether a node that was heard last at `heard` is still within `window` at `now`, by a wall clock
/// that may have been lost with the host's power: one that is before that tells nothing.
pub(crate) fn within(window: Option<Duration>, heard: Option<UnixNanos>, now: UnixNanos) -> bool {
    let (Some(window), Some(heard)) = (window, heard) else {
        return false;
    };
    heard <= now && now < heard.saturating_add(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::at;

    const ALLOC: AllocId = AllocId::from_u128(1);
    const WINDOW: Duration = Duration::from_secs(80);

    #[test]
    fn the_journal_follows_in_steps_and_only_where_somebody_has_a_window() {
        let mut last = LastHeard::default();
        let confirmed = Some(at(5_000).moment);
        assert_eq!(last.poll_journal(confirmed, at(6_000)), None);
        last.set(ALLOC, Some(WINDOW));
        assert_eq!(last.poll_journal(None, at(6_000)), None);
        assert_eq!(
            last.poll_journal(confirmed, at(6_000)),
            Some(at(5_000).wall)
        );
        assert_eq!(last.poll_journal(Some(at(14_000).moment), at(14_000)), None);
        let later = last.poll_journal(Some(at(15_000).moment), at(15_500));
        assert_eq!(later, Some(at(15_000).wall));
        last.set(ALLOC, None);
        assert_eq!(last.poll_journal(Some(at(60_000).moment), at(60_000)), None);
    }

    #[test]
    fn a_clock_that_was_lost_tells_nothing() {
        let heard = Some(UnixNanos(1_000_000_000_000));
        let at = |seconds: i64| UnixNanos(1_000_000_000_000 + seconds * 1_000_000_000);
        assert!(within(Some(WINDOW), heard, at(79)));
        assert!(!within(Some(WINDOW), heard, at(80)));
        assert!(!within(Some(WINDOW), heard, at(-1)));
        assert!(!within(Some(WINDOW), None, at(0)));
        assert!(!within(None, heard, at(0)));
    }
}
