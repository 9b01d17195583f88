//! The leader's loop: one task that owns the pure parts while this server leads.
//!
//! ```text
//!   log (signals) ---+                        +--> workers (threads): evaluation -> decision
//!   heartbeats ------+--> Leader (pure) ------+--> plans: checked, proposed, several in flight
//!   time ------------+                        +--> housekeeping: expiries, write-offs, garbage
//! ```
//!
//! When leadership comes, the loop follows the log *first*, puts a barrier into it, and then builds
//! the parts from the state: nothing applied in between is missed. When leadership goes, everything
//! is dropped; nothing of it is replicated. A restored state is led anew in the same way.

mod commit;
mod housekeeping;
mod led_for;
mod plans;
mod term;
mod workers;

use std::time::Duration;

use controlplane_leader::Now;
use controlplane_leader::gc::GcThresholds;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub use self::led_for::LedFor;
use self::term::Leading;
pub use self::workers::Schedulers;
use crate::cluster::Cluster;
use crate::gateway::liveness::HeardReport;

/// What the loop is told once.
#[derive(Clone, Copy, Debug)]
pub struct LeadingConfig {
    /// How long a node may be silent.
    pub silence: Duration,
    /// What a new leader adds once.
    pub takeover_extra: Duration,
    /// How long what is over is kept.
    pub gc: GcThresholds,
    /// Who schedules.
    pub schedulers: Schedulers,
}

/// What the loop tells of itself, for metrics and operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeadingStats {
    /// Whether this server leads and has taken over.
    pub leading: bool,
    /// What the broker holds.
    pub broker: controlplane_leader::broker::BrokerStats,
    /// Evaluations that wait for capacity.
    pub blocked: usize,
    /// Of those, the ones that any node may help.
    pub blocked_escaped: usize,
    /// Nodes that are watched.
    pub nodes: usize,
    /// Plans in the log's hands.
    pub plans_in_flight: usize,
}

/// Runs the loop for as long as the server runs. `led_for` is what others tell of it, too.
pub async fn run(
    cluster: Cluster,
    config: LeadingConfig,
    mut heard: mpsc::Receiver<HeardReport>,
    stats: watch::Sender<LeadingStats>,
    led_for: LedFor,
) {
    let clock = Clock::new();
    let mut status = cluster.watch_status();
    let renewals = cluster.renewals();
    let mut renewals = renewals.lock().await;
    loop {
        // Reports that come while nobody leads here mean nothing.
        let leads = tokio::select! {
            leads = status.wait_for(|status| status.is_leader()) => leads.map(|it| it.term),
            Some(_) = heard.recv() => continue,
            Some(_) = renewals.recv() => continue,
        };
        let Ok(term) = leads else {
            return;
        };
        match Leading::take_over(&cluster, term, config, led_for.clone(), clock).await {
            Ok(mut leading) => {
                let reason = leading.run(&mut heard, &mut renewals, &stats).await;
                tracing::info!(reason, "leadership lost");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take over as leader; retrying");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        stats.send_replace(LeadingStats::default());
    }
}

/// The loop's clock: spans since the process began to follow the log.
#[derive(Clone, Copy, Debug)]
struct Clock {
    started: Instant,
}

impl Clock {
    fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    fn now(self, cluster: &Cluster) -> Now {
        Now {
            monotonic: self.started.elapsed(),
            wall: cluster.clock().now(),
        }
    }

    fn instant(self, monotonic: Duration) -> Instant {
        self.started + monotonic
    }
}
