//! For how long somebody has led, as this server knows: what the leader tells it with every
//! confirmed report of who is alive, and its own leading.

use std::sync::Arc;
use std::time::Duration;

use controlplane_leader::tenure::Tenure;
use parking_lot::Mutex;
use protocol_model::reconnect::time_to_return;
use tokio::time::Instant;

/// Shared by the leader's loop and by who reports to the leader.
#[derive(Clone, Debug)]
pub struct LedFor {
    tenure: Arc<Mutex<Tenure>>,
    started: Instant,
}

impl LedFor {
    /// Nothing is known yet.
    pub fn unknown() -> Self {
        Self {
            tenure: Arc::default(),
            started: Instant::now(),
        }
    }

    /// The leader, one of `servers`, confirmed something just now, and said for how long somebody
    /// has led, unless its release does not.
    pub fn confirmed(&self, lasted: Option<Duration>, servers: usize) {
        match lasted {
            Some(lasted) => {
                let now = self.started.elapsed();
                self.tenure.lock().told(lasted, now);
            }
            None => self.led(servers),
        }
    }

    /// This server leads, and a majority of `servers` answers it.
    pub(super) fn led(&self, servers: usize) {
        let now = self.started.elapsed();
        self.tenure.lock().led(now, time_to_return(servers));
    }

    /// For how long, in a cluster of so many servers; see [`Tenure::lasted`].
    pub(super) fn lasted(&self, servers: usize) -> Duration {
        let now = self.started.elapsed();
        self.tenure.lock().lasted(now, time_to_return(servers))
    }
}
