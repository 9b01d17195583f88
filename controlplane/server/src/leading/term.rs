//! One term of leading: the pure parts, and what drives them until somebody else leads.

use std::time::Duration;

use controlplane_leader::{Effect, Leader, LeaderConfig, Now, Reading};
use controlplane_state::{Command, Signal, Snapshot};
use protocol_model::{EvalId, Incarnation};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::housekeeping::{self, Housekeeping};
use super::plans::Plans;
use super::workers::Workers;
use super::{Clock, LeadingConfig, LeadingStats, LedFor};
use crate::cluster::{ChangeError, Cluster, LeadingError, LockRenewal};
use crate::gateway::liveness::{HeardAnswer, HeardReport};
use crate::machine::{AppliedSignals, Follower};

/// How often the loop turns while something is due that has to wait for the log.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_millis(20);
/// Reports that are heard in one turn, before silent nodes are looked for: more than the queue
/// holds. What comes faster than it is read waits for the next turn.
const REPORTS_TURN_MAX: usize = 256;
/// How long the loop may sleep: a leader that does not look whether it has a majority does not know
/// for how long it has led.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// A server reports to itself every 200 ms. Without a report for longer, this process lacks
/// processor time, and heartbeats wait in it.
const OWN_REPORT_MAX: Duration = Duration::from_millis(800);

/// One term of leading.
pub(super) struct Leading {
    cluster: Cluster,
    /// The log's term: another one is led anew, also by this server.
    term: u64,
    clock: Clock,
    /// When the loop last ran, by the monotonic clock.
    awake: Duration,
    leader: Leader,
    /// The index that the parts were built at.
    since: u64,
    applied: Follower,
    workers: Workers,
    plans: Plans,
    quorum: Quorum,
    /// When this server's own report was last taken in.
    own_report: Duration,
    led_for: LedFor,
    housekeeping: Housekeeping,
}

/// Whether a majority of the servers answers this one, as it was told last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quorum {
    Answers,
    Silent,
}

impl Leading {
    pub(super) async fn take_over(
        cluster: &Cluster,
        term: u64,
        config: LeadingConfig,
        led_for: LedFor,
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
        let servers = cluster.voters();
        let leader_config = LeaderConfig {
            silence: config.silence,
            takeover_extra: config.takeover_extra,
            servers,
            gc: config.gc,
        };
        let now = clock.now(cluster);
        let lasted = led_for.lasted(servers);
        tracing::info!(index = snapshot.index(), led_for = ?lasted, "leading");
        Ok(Self {
            cluster: cluster.clone(),
            term,
            clock,
            awake: now.monotonic,
            leader: Leader::take_over(&snapshot, leader_config, lasted, now),
            since: snapshot.index(),
            applied,
            workers: Workers::start(config.schedulers, cluster.clock()),
            plans: Plans::new(term),
            quorum: Quorum::Answers,
            own_report: now.monotonic,
            led_for,
            housekeeping: Housekeeping::default(),
        })
    }

    /// Leads until somebody else does. Answers why it ended.
    pub(super) async fn run(
        &mut self,
        heard: &mut mpsc::Receiver<HeardReport>,
        renewals: &mut mpsc::Receiver<LockRenewal>,
        stats: &watch::Sender<LeadingStats>,
    ) -> &'static str {
        let mut status = self.cluster.watch_status();
        loop {
            if !self.cluster.leads_in(self.term) {
                return "another server leads, or none";
            }
            self.hear(heard);
            if let Some(reason) = self.look_at_quorum() {
                return reason;
            }
            self.turn();
            stats.send_replace(self.stats());
            let wake = self.wake();
            tokio::select! {
                applied = self.applied.next() => match applied {
                    // A snapshot replaced the state, or the loop was too slow for the log.
                    None => return "the log went on without the loop",
                    Some(first) => if let Some(reason) = self.on_applied(first) {
                        return reason;
                    },
                },
                Some(decided) = self.workers.next() => {
                    let now = self.now();
                    self.plans.on_decided(decided, &mut self.leader, &self.cluster, now);
                }
                Some(done) = self.plans.next() => {
                    let now = self.now();
                    self.plans.on_done(done, &mut self.leader, now);
                }
                Some(report) = heard.recv() => self.on_heard(report),
                Some(renewal) = renewals.recv() => self.on_renewal(renewal),
                kept = self.housekeeping.next() => {
                    let now = self.now();
                    housekeeping::on_kept(kept, &mut self.leader, now);
                }
                changed = status.changed() => if changed.is_err() {
                    return "the log is gone";
                },
                () = tokio::time::sleep_until(wake) => {}
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
    fn wake(&self) -> Instant {
        let rest = self.leader.sleep_max().unwrap_or(SLEEP_MAX).min(SLEEP_MAX);
        let rest = self.awake + rest;
        let due = self.leader.poll_timeout().map_or(rest, |due| due.min(rest));
        let wake = self.clock.instant(due);
        if self.housekeeping.is_idle() {
            return wake;
        }
        // What is due waits for the one that is in the log's hands: no use in turning.
        let soon = Instant::now() + HOUSEKEEPING_PAUSE;
        wake.max(soon)
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
        self.plans.keep(&mut self.leader, now);
        self.leader.on_timeout(now);
        while self.workers.is_open() {
            let Some(delivery) = self.leader.evaluations.dequeue(now) else {
                break;
            };
            let snapshot = self.cluster.snapshot();
            let planned = self.leader.evaluations.planned(&snapshot);
            let ready = self.leader.evaluations.broker_stats().ready;
            let scheduled = self.workers.schedule(delivery, snapshot, planned, ready);
            if let Err(delivery) = scheduled {
                self.leader
                    .evaluations
                    .nack(delivery.eval.id, delivery.token, now);
                break;
            }
        }
        if self.housekeeping.is_idle() {
            let snapshot = self.cluster.snapshot();
            let mut ids = || EvalId(Uuid::new_v4());
            let effect = self.leader.poll_effect(&snapshot, &mut ids, now);
            if let Some(Effect::Command(command)) = effect {
                self.housekeeping
                    .start(self.cluster.clone(), self.term, command);
            }
        }
    }

    /// Without a majority nothing that is decided here takes effect, unless it comes back to this
    /// leader: then what was decided for want of news would be written although it was none.
    /// Answers why leading has to begin anew, where it has.
    fn look_at_quorum(&mut self) -> Option<&'static str> {
        let now = self.now();
        let found = match self.cluster.raft().hears_majority() {
            true => Quorum::Answers,
            false => Quorum::Silent,
        };
        let servers = self.cluster.voters();
        let gap = self.led_for.lasted(servers) == Duration::ZERO;
        if now.monotonic.saturating_sub(self.own_report) > OWN_REPORT_MAX {
            // The report comes from this process: its absence says nothing of any node.
            self.leader.on_unheard(now);
        }
        match found {
            Quorum::Silent => self.leader.on_unheard(now),
            Quorum::Answers => self.led_for.led(servers),
        }
        match (self.quorum, found) {
            (Quorum::Answers, Quorum::Silent) => {
                tracing::warn!(
                    "no majority of the servers answers; no node expires until one does"
                );
            }
            (Quorum::Silent, Quorum::Answers) if gap => {
                // Nodes were without a leader for as long.
                return Some("a majority answers again, after a while");
            }
            (Quorum::Silent, Quorum::Answers) => tracing::info!("a majority answers again"),
            _ => {}
        }
        self.quorum = found;
        None
    }

    /// Answers why leading has to begin anew, where it has.
    fn on_applied(&mut self, first: (AppliedSignals, Snapshot)) -> Option<&'static str> {
        let now = self.now();
        let mut next = Some(first);
        while let Some((AppliedSignals { index, signals }, snapshot)) = next {
            if index > self.since {
                if signals.contains(&Signal::IncarnationChanged) {
                    // Nothing that the parts know is of this history.
                    return Some("the state was restored from a snapshot");
                }
                self.leader.on_applied(index, &signals, &snapshot, now);
            }
            next = self.applied.try_next();
        }
        None
    }

    fn on_heard(&mut self, report: HeardReport) {
        let now = self.now();
        let heard = report.heard.iter();
        let heard = heard.map(|one| (one.node, one.epoch, one.at.elapsed()));
        let server = report.server.as_u64();
        if report.server == self.cluster.server_id() {
            self.own_report = now.monotonic;
            if report.reading != Reading::InTime {
                // Reports of the other servers may be unread here, too.
                self.leader.on_unheard(now);
            }
        }
        let not_watched = self.leader.on_report(server, report.reading, heard, now);
        // A server that does not wait any more tells it again.
        let _ = report.answer.send(HeardAnswer {
            not_watched,
            led_for: Some(self.led_for.lasted(self.cluster.voters())),
        });
    }

    /// A holder renews its lock. Without an answer it asks whoever leads next.
    fn on_renewal(&mut self, renewal: LockRenewal) {
        let LockRenewal { key, id, answer } = renewal;
        if !self.cluster.leads_in(self.term) {
            return;
        }
        let now = self.now();
        let snapshot = self.cluster.snapshot();
        let renewed = self.leader.on_renewal(&key, id, &snapshot, now);
        // A caller that does not wait any more asks again.
        let _ = answer.send(renewed);
    }

    fn stats(&self) -> LeadingStats {
        let (blocked, blocked_escaped) = self.leader.evaluations.blocked_stats();
        LeadingStats {
            leading: true,
            broker: self.leader.evaluations.broker_stats(),
            blocked,
            blocked_escaped,
            nodes: self.leader.nodes_watched(),
            plans_in_flight: self.plans.in_flight(),
        }
    }
}
