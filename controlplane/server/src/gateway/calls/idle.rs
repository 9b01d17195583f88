//! When a node's connection for calls has not been used for so long that the server closes it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::places::NodeCalls;

/// How long a connection stays without a call. The next call costs a handshake; a connection costs
/// the server memory.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(300);
/// Between two looks at it: it is closed so much later at most.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How much a connection was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    /// Calls that are open.
    pub(super) open: u32,
    /// Calls that began, ever.
    pub(super) begun: u64,
}

/// Since when no call has used a connection.
#[derive(Debug)]
struct Idle {
    begun: u64,
    since: Instant,
}

impl Idle {
    /// Whether it has been idle for [`IDLE_MAX`].
    fn look(&mut self, used: Use, now: Instant) -> bool {
        let Use { open, begun } = used;
        if open > 0 || begun != self.begun {
            *self = Self { begun, since: now };
        }
        now.duration_since(self.since) >= IDLE_MAX
    }
}

/// Waits until no call has used the connection for [`IDLE_MAX`], and lets no new one begin.
pub(super) async fn retired(calls: &NodeCalls) {
    let since = Instant::now();
    let mut idle = Idle { begun: 0, since };
    while !(idle.look(calls.used(), Instant::now()) && calls.retire()) {
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_five_minutes_after_its_last_call() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let used = |open, begun| Use { open, begun };
        let mut idle = Idle {
            begun: 0,
            since: start,
        };
        assert!(!idle.look(used(0, 0), at(299)));
        assert!(idle.look(used(0, 0), at(300)), "never used");
        assert!(!idle.look(used(1, 1), at(310)), "in use");
        assert!(!idle.look(used(1, 1), at(900)), "in use for long");
        assert!(!idle.look(used(0, 2), at(1000)), "a short call in between");
        assert!(!idle.look(used(0, 2), at(1299)));
        assert!(idle.look(used(0, 2), at(1300)));
    }
}
