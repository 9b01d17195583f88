//! Differences between servers that have to be alike: access control on one and off on another,
//! another issuer of identities, and clocks that are apart.
//!
//! | difference | follows |
//! |---|---|
//! | `acl.enabled`, `server.oidc_issuer` | the message of `agent/health` names the other server |
//! | clocks more than [`CLOCKS_APART_MAX`] apart | a warning in the log, once in [`WARN_EVERY`] |

use std::collections::BTreeMap;
use std::time::Duration;

use controlplane_raft::{Membership, ServerId};
use protocol_model::UnixNanos;
use tokio::time::Instant;

/// The largest difference between two clocks that is not warned of: half of what tokens of
/// workloads are forgiven.
pub(crate) const CLOCKS_APART_MAX: Duration = Duration::from_secs(30);
/// The shortest time between two warnings of one server's clock.
const WARN_EVERY: Duration = Duration::from_secs(3600);

/// How far another server's clock is ahead of this one's at least; negative = it is behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClockAhead {
    nanos: i64,
}

impl ClockAhead {
    /// Of a clock that was read as `theirs` between a question at `asked`, by this server's clock,
    /// and its answer, `waited` later. A time within that span says nothing.
    pub(crate) fn of(theirs: UnixNanos, asked: UnixNanos, waited: Duration) -> Self {
        let answered = asked.saturating_add(waited);
        let nearest = UnixNanos(theirs.0.clamp(asked.0, answered.0.max(asked.0)));
        Self {
            nanos: theirs.0.saturating_sub(nearest.0),
        }
    }

    /// The difference in either direction.
    fn apart(self) -> Duration {
        Duration::from_nanos(self.nanos.unsigned_abs())
    }
}

/// The warnings of clocks.
#[derive(Debug, Default)]
pub(crate) struct ClockWarnings {
    /// When servers were warned of whose clocks are apart.
    warned: BTreeMap<ServerId, Instant>,
}

impl ClockWarnings {
    /// Whether the clock of a server is to be warned of.
    pub(crate) fn is_due(&mut self, server: ServerId, ahead: ClockAhead, now: Instant) -> bool {
        if ahead.apart() <= CLOCKS_APART_MAX {
            self.warned.remove(&server);
            return false;
        }
        let warned = self.warned.get(&server);
        let due = warned.is_none_or(|at| now >= *at + WARN_EVERY);
        if due {
            self.warned.insert(server, now);
        }
        due
    }

    /// Warns of the clock of a server where that is due.
    pub(crate) fn look(&mut self, members: &Membership, server: ServerId, ahead: ClockAhead) {
        if !self.is_due(server, ahead, Instant::now()) {
            return;
        }
        let apart = ahead.apart();
        let theirs = match ahead.nanos > 0 {
            true => "ahead",
            false => "behind",
        };
        let name = members.get(server).map_or("", |info| info.name.as_str());
        tracing::warn!(
            %server, name, ?apart, theirs, max = ?CLOCKS_APART_MAX,
            "the clock of another server differs from this one's: look at the time service of both"
        );
    }

    /// Forgets servers that are no members.
    pub(crate) fn retain(&mut self, members: &Membership) {
        self.warned.retain(|id, _| members.contains(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn ahead(theirs_s: i64, asked_s: i64, waited_s: u64) -> i64 {
        let [theirs, asked] = [theirs_s, asked_s].map(|s| UnixNanos(s * SECOND));
        ClockAhead::of(theirs, asked, Duration::from_secs(waited_s)).nanos / SECOND
    }

    #[test]
    fn clock_is_ahead_or_behind_by_what_the_wait_cannot_explain() {
        assert_eq!(ahead(100, 100, 0), 0);
        assert_eq!(ahead(103, 100, 5), 0);
        assert_eq!(ahead(145, 100, 5), 40);
        assert_eq!(ahead(40, 100, 5), -60);
    }

    #[test]
    fn clock_that_is_apart_is_warned_of_once_an_hour() {
        let [one, other] = [1, 2].map(ServerId::from_u64);
        let [far, near] = [31, 30].map(|s| ClockAhead { nanos: s * SECOND });
        let behind = ClockAhead { nanos: -far.nanos };
        let (mut warnings, now) = (ClockWarnings::default(), Instant::now());
        assert!(!warnings.is_due(one, near, now));
        assert!(warnings.is_due(one, far, now));
        assert!(!warnings.is_due(one, far, now));
        assert!(warnings.is_due(other, behind, now), "each for itself");
        assert!(warnings.is_due(one, far, now + WARN_EVERY));
        // Once it was right, the next difference is news.
        assert!(!warnings.is_due(one, near, now + WARN_EVERY));
        assert!(warnings.is_due(one, behind, now + WARN_EVERY));
    }
}
