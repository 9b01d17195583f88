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
mod plans;
mod workers;

use std::time::Duration;

use controlplane_leader::gc::GcThresholds;
use controlplane_leader::{Leader, LeaderConfig, Now};
use controlplane_state::{Command, Signal, Snapshot};
use protocol_model::{EvalId, Incarnation};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use uuid::Uuid;

use self::housekeeping::Housekeeping;
use self::plans::Plans;
pub use self::workers::Schedulers;
use self::workers::Workers;
use crate::cluster::{ChangeError, Cluster, LeadingError};
use crate::gateway::liveness::HeardReport;
use crate::machine::AppliedSignals;

/// How often the loop turns while something is due that has to wait for the log.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_millis(20);
/// Reports that are heard in one turn, before silent nodes are looked for: more than the queue
/// holds. What comes faster than it is read waits for the next turn.
const REPORTS_TURN_MAX: usize = 256;

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

/// Runs the loop for as long as the server runs.
pub async fn run(
    cluster: Cluster,
    config: LeadingConfig,
    mut heard: mpsc::Receiver<HeardReport>,
    stats: watch::Sender<LeadingStats>,
) {
    let clock = Clock::new();
    let mut status = cluster.watch_status();
    let mut led: Option<Instant> = None;
    loop {
        // Reports that come while nobody leads here mean nothing.
        let leads = tokio::select! {
            leads = status.wait_for(|status| status.is_leader()) => leads.map(|it| it.term),
            Some(_) = heard.recv() => continue,
        };
        let Ok(term) = leads else {
            return;
        };
        let elsewhere = cluster.raft().last_heard();
        let here = led.map(|until| until.elapsed());
        let leaderless = elsewhere.into_iter().chain(here).min();
        match Leading::take_over(&cluster, term, config, leaderless, clock).await {
            Ok(mut leading) => {
                tracing::info!(index = leading.since, ?leaderless, "leading");
                let reason = leading.run(&mut heard, &stats).await;
                led = Some(Instant::now());
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

/// One term of leading.
struct Leading {
    cluster: Cluster,
    /// The log's term: another one is led anew, also by this server.
    term: u64,
    clock: Clock,
    /// When the loop last ran, by the monotonic clock.
    awake: Duration,
    leader: Leader,
    /// The index that the parts were built at.
    since: u64,
    applied: mpsc::Receiver<AppliedSignals>,
    workers: Workers,
    plans: Plans,
    quorum: Quorum,
    housekeeping: Housekeeping,
}

/// Whether a majority of the servers answers this one, as it was told last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quorum {
    Answers,
    Silent,
}

impl Leading {
    async fn take_over(
        cluster: &Cluster,
        term: u64,
        config: LeadingConfig,
        leaderless: Option<Duration>,
        clock: Clock,
    ) -> Result<Self, LeadingError> {
        let applied = cluster.hub().follow();
        // Of this term: through another leader, it would begin in a term that is over.
        cluster.change_as_leader(Command::Barrier, term).await?;
        if cluster.snapshot().cluster().incarnation.is_none() {
            let incarnation = Incarnation(Uuid::new_v4());
            let init = Command::ClusterInit { incarnation };
            match cluster.change_as_leader(init, term).await {
                // Another leader was faster: as good.
                Ok(_) | Err(LeadingError::Change(ChangeError::Refused(_))) => {}
                Err(error) => return Err(error),
            }
        }
        let snapshot = cluster.snapshot();
        let leader_config = LeaderConfig {
            silence: config.silence,
            takeover_extra: config.takeover_extra,
            gc: config.gc,
        };
        let now = clock.now(cluster);
        Ok(Self {
            cluster: cluster.clone(),
            term,
            clock,
            awake: now.monotonic,
            leader: Leader::take_over(&snapshot, leader_config, leaderless, now),
            since: snapshot.index(),
            applied,
            workers: Workers::start(config.schedulers, cluster.clock()),
            plans: Plans::new(term),
            quorum: Quorum::Answers,
            housekeeping: Housekeeping::default(),
        })
    }

    /// Leads until somebody else does. Answers why it ended.
    async fn run(
        &mut self,
        heard: &mut mpsc::Receiver<HeardReport>,
        stats: &watch::Sender<LeadingStats>,
    ) -> &'static str {
        let mut status = self.cluster.watch_status();
        loop {
            if !self.cluster.leads_in(self.term) {
                return "another server leads, or nobody";
            }
            self.hear(heard);
            self.turn();
            stats.send_replace(self.stats());
            let wake = self.wake();
            tokio::select! {
                applied = self.applied.recv() => match applied {
                    // A snapshot replaced the state, or the loop was too slow for the log.
                    None => return "the log went on without the loop",
                    Some(first) => if let Some(reason) = self.on_applied(first) {
                        return reason;
                    },
                },
                Some(decided) = self.workers.next() => {
                    let now = self.now();
                    self.plans.on_decided(decided, &mut self.leader, &self.workers, &self.cluster,
                        now);
                }
                Some(done) = self.plans.next() => {
                    let now = self.now();
                    self.plans.on_done(done, &mut self.leader, &self.workers, &self.cluster, now);
                }
                Some(report) = heard.recv() => self.on_heard(report),
                kept = self.housekeeping.next() => {
                    let now = self.now();
                    housekeeping::on_kept(kept, &mut self.leader, now);
                }
                changed = status.changed() => if changed.is_err() {
                    return "the log is gone";
                },
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Now; and the leader's parts learn how long they were told nothing.
    fn now(&mut self) -> Now {
        let now = self.clock.now(&self.cluster);
        self.leader
            .on_woken(now.monotonic.saturating_sub(self.awake));
        self.awake = now.monotonic;
        now
    }

    /// When the loop has to turn again, whatever happens.
    fn wake(&self) -> Option<Instant> {
        let rest = self.leader.sleep_max().map(|max| self.awake + max);
        let due = self.leader.poll_timeout().into_iter().chain(rest).min();
        let wake = due.map(|at| self.clock.instant(at));
        if self.housekeeping.is_idle() {
            return wake;
        }
        // What is due waits for the one that is in the log's hands: no use in turning.
        let soon = Instant::now() + HOUSEKEEPING_PAUSE;
        wake.map(|at| at.max(soon))
    }

    /// Hears what was reported already: whoever is in there is not silent.
    fn hear(&mut self, heard: &mut mpsc::Receiver<HeardReport>) {
        for _ in 0..REPORTS_TURN_MAX {
            let Ok(report) = heard.try_recv() else {
                break;
            };
            self.on_heard(report);
        }
    }

    /// Hands out what can be handed out.
    fn turn(&mut self) {
        let now = self.now();
        self.look_at_quorum(now);
        self.plans.keep(&mut self.leader, now);
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
        if self.housekeeping.is_idle() {
            let snapshot = self.cluster.snapshot();
            let mut ids = || EvalId(Uuid::new_v4());
            if let Some(command) = self.leader.poll_command(&snapshot, &mut ids, now) {
                self.housekeeping
                    .start(self.cluster.clone(), self.term, command);
            }
        }
    }

    /// Without a majority nothing that is decided here takes effect, unless it comes back to this
    /// leader: then what was decided for want of news would be written although it was none.
    fn look_at_quorum(&mut self, now: Now) {
        let found = match self.cluster.raft().hears_majority() {
            true => Quorum::Answers,
            false => Quorum::Silent,
        };
        if found == Quorum::Silent {
            self.leader.on_quorum_lost(now);
        }
        match (self.quorum, found) {
            (Quorum::Answers, Quorum::Silent) => tracing::warn!(
                "no majority of the servers answers: nobody is taken for silent until it does"
            ),
            (Quorum::Silent, Quorum::Answers) => tracing::info!("a majority answers again"),
            _ => {}
        }
        self.quorum = found;
    }

    /// Answers why leading has to begin anew, where it has.
    fn on_applied(&mut self, first: AppliedSignals) -> Option<&'static str> {
        let now = self.now();
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

    fn on_heard(&mut self, report: HeardReport) {
        let now = self.now();
        let heard = report.heard.iter();
        let heard = heard.map(|one| (one.node, one.epoch, one.at.elapsed()));
        let server = report.server.as_u64();
        let not_watched = self.leader.on_report(server, heard, now);
        // A server that does not wait any more tells it again.
        let _ = report.answer.send(not_watched);
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

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
