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

mod plans;
mod workers;

use std::time::{Duration, Instant};

use controlplane_leader::gc::GcThresholds;
use controlplane_leader::{Leader, LeaderConfig, Now};
use controlplane_state::{Command, Signal, Snapshot};
use protocol_model::{EvalId, Incarnation};
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use self::plans::Plans;
use self::workers::Workers;
use crate::cluster::{ChangeError, Cluster, wall_clock};
use crate::gateway::liveness::Heard;
use crate::machine::AppliedSignals;

/// How often the loop turns while something is due that has to wait for the log.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_millis(20);

/// What the loop is told once.
#[derive(Clone, Copy, Debug)]
pub struct LeadingConfig {
    /// How long a node may be silent.
    pub silence: Duration,
    /// What a new leader adds once.
    pub takeover_extra: Duration,
    /// How long what is over is kept.
    pub gc: GcThresholds,
    /// Scheduler threads.
    pub schedulers: usize,
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

/// Runs the loop for as long as the server runs.
pub async fn run(
    cluster: Cluster,
    config: LeadingConfig,
    mut heard: mpsc::Receiver<Vec<Heard>>,
    stats: watch::Sender<LeadingStats>,
) {
    let clock = Clock::new();
    let mut status = cluster.watch_status();
    loop {
        // Reports that come while nobody leads here mean nothing.
        let leads = tokio::select! {
            leads = status.wait_for(|status| status.is_leader()) => leads.map(drop),
            Some(_) = heard.recv() => continue,
        };
        if leads.is_err() {
            return;
        }
        match Leading::take_over(&cluster, config, clock).await {
            Ok(mut leading) => {
                tracing::info!(index = leading.since, "leading");
                let reason = leading.run(&mut heard, &stats).await;
                tracing::info!(reason, "not leading any more");
            }
            Err(error) => {
                tracing::warn!(%error, "could not take over");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        stats.send_replace(LeadingStats::default());
    }
}

/// The process's clocks.
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

    fn now(self) -> Now {
        Now {
            monotonic: self.started.elapsed(),
            wall: wall_clock(),
        }
    }

    fn instant(self, monotonic: Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.started + monotonic)
    }
}

/// One term of leading.
struct Leading {
    cluster: Cluster,
    clock: Clock,
    leader: Leader,
    /// The index that the parts were built at.
    since: u64,
    applied: mpsc::Receiver<AppliedSignals>,
    workers: Workers,
    plans: Plans,
    /// A housekeeping command in the log's hands: one at a time.
    housekeeping: Option<tokio::task::JoinHandle<Result<(), (Command, ChangeError)>>>,
}

impl Leading {
    async fn take_over(
        cluster: &Cluster,
        config: LeadingConfig,
        clock: Clock,
    ) -> Result<Self, ChangeError> {
        let applied = cluster.hub().follow();
        cluster.change(Command::Barrier).await?;
        if cluster.snapshot().cluster().incarnation.is_none() {
            let incarnation = Incarnation(Uuid::new_v4());
            match cluster.change(Command::ClusterInit { incarnation }).await {
                // Another leader was faster: as good.
                Ok(_) | Err(ChangeError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let snapshot = cluster.snapshot();
        let leader_config = LeaderConfig {
            silence: config.silence,
            takeover_extra: config.takeover_extra,
            gc: config.gc,
        };
        Ok(Self {
            cluster: cluster.clone(),
            clock,
            leader: Leader::take_over(&snapshot, leader_config, clock.now()),
            since: snapshot.index(),
            applied,
            workers: Workers::start(config.schedulers),
            plans: Plans::default(),
            housekeeping: None,
        })
    }

    /// Leads until somebody else does. Answers why it ended.
    async fn run(
        &mut self,
        heard: &mut mpsc::Receiver<Vec<Heard>>,
        stats: &watch::Sender<LeadingStats>,
    ) -> &'static str {
        let mut status = self.cluster.watch_status();
        loop {
            self.turn();
            stats.send_replace(self.stats());
            let mut wake = self.leader.poll_timeout().map(|at| self.clock.instant(at));
            if self.housekeeping.is_some() {
                // What is due waits for the one that is in the log's hands: no use in turning.
                let soon = tokio::time::Instant::now() + HOUSEKEEPING_PAUSE;
                wake = wake.map(|at| at.max(soon));
            }
            tokio::select! {
                applied = self.applied.recv() => match applied {
                    // A snapshot replaced the state, or the loop was too slow for the log.
                    None => return "the log went on without the loop",
                    Some(first) => if let Some(reason) = self.on_applied(first) {
                        return reason;
                    },
                },
                Some(decided) = self.workers.next() => {
                    self.plans.on_decided(decided, &mut self.leader, &self.workers, &self.cluster,
                        self.clock.now());
                }
                Some(done) = self.plans.next() => {
                    self.plans.on_done(done, &mut self.leader, &self.workers, &self.cluster,
                        self.clock.now());
                }
                Some(report) = heard.recv() => self.on_heard(&report),
                done = finished(&mut self.housekeeping) => self.on_housekeeping(done),
                changed = status.changed() => {
                    if changed.is_err() || !status.borrow().is_leader() {
                        return "another server leads, or nobody";
                    }
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Hands out what can be handed out.
    fn turn(&mut self) {
        let now = self.clock.now();
        self.leader.on_timeout(now);
        while self.workers.idle() {
            let Some(delivery) = self.leader.dequeue(now) else {
                break;
            };
            if let Err(delivery) = self.workers.schedule(delivery, self.cluster.snapshot(), 1) {
                self.leader.nack(delivery.eval.id, delivery.token, now);
                break;
            }
        }
        if self.housekeeping.is_none() {
            let snapshot = self.cluster.snapshot();
            let mut ids = || EvalId(Uuid::new_v4());
            if let Some(command) = self.leader.poll_command(&snapshot, &mut ids, now) {
                self.housekeeping = Some(tokio::spawn(keep_house(self.cluster.clone(), command)));
            }
        }
    }

    /// Answers why leading has to begin anew, where it has.
    fn on_applied(&mut self, first: AppliedSignals) -> Option<&'static str> {
        let now = self.clock.now();
        let snapshot: Snapshot = self.cluster.snapshot();
        let mut next = Some(first);
        while let Some(AppliedSignals { index, signals }) = next {
            if index > self.since {
                if signals.contains(&Signal::IncarnationChanged) {
                    // Nothing that the parts know is of this history.
                    return Some("the state was restored from a snapshot");
                }
                self.leader.on_applied(index, &signals, &snapshot, now);
            }
            next = self.applied.try_recv().ok();
        }
        None
    }

    fn on_heard(&mut self, report: &[Heard]) {
        let now = self.clock.now();
        for heard in report {
            self.leader
                .on_heard(heard.node, heard.epoch, heard.at.elapsed(), now);
        }
    }

    fn on_housekeeping(&mut self, done: Result<(), (Command, ChangeError)>) {
        self.housekeeping = None;
        match done {
            Ok(()) => {}
            // The state knows better: somebody else did it, or it does not hold any more.
            Err((command, ChangeError::Refused(refusal))) => {
                tracing::debug!(%refusal, "housekeeping was refused");
                self.leader
                    .on_command_refused(&command, refusal.to_string());
            }
            // To try again at once would not help.
            Err((command, error @ (ChangeError::TooLarge(_) | ChangeError::OldServer(_)))) => {
                tracing::warn!(%error, "housekeeping was refused");
                self.leader.on_command_refused(&command, error.to_string());
            }
            Err((command, error)) => {
                tracing::warn!(%error, "housekeeping was not taken into the log");
                self.leader.on_command_failed(command);
            }
        }
    }

    fn stats(&self) -> LeadingStats {
        let (blocked, blocked_escaped) = self.leader.blocked_stats();
        LeadingStats {
            leading: true,
            broker: self.leader.broker_stats(),
            blocked,
            blocked_escaped,
            nodes: self.leader.nodes_watched(),
            plans_in_flight: self.plans.in_flight(),
        }
    }
}

async fn keep_house(cluster: Cluster, command: Command) -> Result<(), (Command, ChangeError)> {
    match cluster.change(command.clone()).await {
        Ok(_) => Ok(()),
        Err(error) => Err((command, error)),
    }
}

/// The end of the housekeeping command; never, where there is none.
async fn finished(
    running: &mut Option<tokio::task::JoinHandle<Result<(), (Command, ChangeError)>>>,
) -> Result<(), (Command, ChangeError)> {
    match running {
        None => std::future::pending().await,
        Some(handle) => match handle.await {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "housekeeping broke");
                Ok(())
            }
        },
    }
}

async fn sleep_until(wake: Option<tokio::time::Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
