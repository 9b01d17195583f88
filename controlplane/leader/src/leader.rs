//! The parts of a leader, together: what the shell's loop drives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::PlanApply;
use controlplane_state::{Command, NodeRejected, SessionEpoch, Signal, Snapshot, Usage, covers};
use protocol_model::reconnect::time_to_return;
use protocol_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, NodeId, NodeStatus};

use crate::blocked::{BlockedEvals, Concerns, Freed};
use crate::broker::{BrokerStats, Delivery, EvalBroker, Nacked, Token};
use crate::gc::{self, GcThresholds};
use crate::in_flight::PlansInFlight;
use crate::liveness::Liveness;
use crate::owed_syncs::OwedSyncs;
use crate::rollouts::Rollouts;
use crate::time::Now;
use crate::unaccepted::PendingAllocs;
use crate::windows::DisconnectWindows;

/// Evaluations written off in one log entry.
const WRITE_OFF_MAX: usize = 512;
/// When an evaluation that failed is tried again; a part of it is added by the evaluation's id, so
/// that many do not come back at once.
const FOLLOW_UP_AFTER: Duration = Duration::from_secs(60);
/// Reasons of refused evaluations that are kept.
const REASONS_MAX: usize = 1024;

/// What a node without a session gets once, beyond its silence: the cluster was restored, or the
/// node's report was overdue, and it has to find out and knock anew. Its waiting is 15 s at most;
/// taking all tasks of a host for lost that only came late costs far more than the rest of the
/// minute.
const KNOCK_AGAIN_MAX: Duration = Duration::from_secs(60);

/// What a leader is told once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaderConfig {
    /// How long a node may be silent.
    pub silence: Duration,
    /// What is added once after taking over, and for a session that begins: nodes may have to find
    /// another server.
    pub takeover_extra: Duration,
    /// How many servers vote: of some of them nodes may hear nothing while they look for another.
    pub servers: usize,
    /// How long what is over is kept.
    pub gc: GcThresholds,
}

/// Whether the state has a node in the session of that epoch; in any, or on its way to one, where
/// the epoch is none.
fn goes_on(snapshot: &Snapshot, node: NodeId, epoch: SessionEpoch) -> bool {
    let of_epoch = |newest| epoch == SessionEpoch::NONE || newest == epoch;
    snapshot.node(node).is_some_and(|record| {
        let silent = matches!(
            record.node.status,
            NodeStatus::Disconnected | NodeStatus::Down
        );
        !silent && of_epoch(record.session.epoch)
    })
}

/// Everything that only the leader does. A new leader makes a new one from the state; nothing of it
/// is replicated.
#[derive(Debug)]
pub struct Leader {
    config: LeaderConfig,
    broker: EvalBroker,
    in_flight: PlansInFlight,
    blocked: BlockedEvals,
    liveness: Liveness,
    owed: OwedSyncs,
    windows: DisconnectWindows,
    pending: PendingAllocs,
    rollouts: Rollouts,
    paused: bool,
    gc_due: Duration,
    /// Whether the last command was asked for to find out what became of those before it.
    finding_out: bool,
    /// Evaluations that were written off and are not in the log yet, in batches: of one command
    /// together at most, since no further ones are written off before.
    unwritten: VecDeque<Vec<Evaluation>>,
    /// Why evaluations were refused the last time, for whoever looks at one that failed.
    reasons: BTreeMap<EvalId, String>,
}

impl Leader {
    /// Takes over: every pending evaluation is enqueued, every blocked one kept, every node in a
    /// session watched. `tenure` is for how long somebody has led
    /// ([`Tenure::lasted`](crate::tenure::Tenure::lasted)): where that is not long, nodes have what
    /// is left of [`time_to_return`].
    pub fn take_over(
        snapshot: &Snapshot,
        config: LeaderConfig,
        tenure: Duration,
        now: Now,
    ) -> Self {
        let mut reconnect = config.takeover_extra;
        // In a new cluster there is nobody to wait for.
        if snapshot.nodes().next().is_some() {
            let left = time_to_return(config.servers).saturating_sub(tenure);
            reconnect = reconnect.max(left);
        }
        let knocks_anew = snapshot.nodes().any(|record| {
            record.node.status == NodeStatus::Disconnected
                && record.session.epoch == SessionEpoch::NONE
        });
        let grace = config.silence + takeover_extra(reconnect, knocks_anew);
        let mut leader = Self {
            config,
            broker: EvalBroker::new(),
            in_flight: PlansInFlight::default(),
            blocked: BlockedEvals::new(),
            liveness: Liveness::new(config.silence, config.takeover_extra),
            owed: OwedSyncs::default(),
            windows: DisconnectWindows::new(now.monotonic + grace),
            pending: PendingAllocs::default(),
            rollouts: Rollouts::of(snapshot, now.monotonic + grace, now),
            paused: snapshot.scheduler_config().pause_eval_broker,
            gc_due: now.monotonic + config.gc.look_every(),
            finding_out: false,
            unwritten: VecDeque::new(),
            reasons: BTreeMap::new(),
        };
        for eval in snapshot.evals() {
            match eval.status {
                EvalStatus::Pending => leader.broker.enqueue(eval, now),
                // Whatever was freed before is not known here: try each once.
                EvalStatus::Blocked => leader.broker.enqueue(eval, now),
                EvalStatus::Complete | EvalStatus::Failed | EvalStatus::Cancelled => {}
            }
        }
        for record in snapshot.nodes() {
            let (node, epoch) = (record.node.id, record.session.epoch);
            let extra = takeover_extra(reconnect, epoch == SessionEpoch::NONE);
            if in_session(record.node.status) {
                leader.liveness.await_return(node, epoch, extra, now);
            }
            match record.node.status {
                // Without a session there is none to take away: liveness sees to it.
                NodeStatus::Initializing if epoch != SessionEpoch::NONE => {
                    leader.owed.watch(node, epoch, extra, now);
                }
                NodeStatus::Disconnected => leader.windows.watch(node, epoch, now),
                NodeStatus::Ready => leader.pending.watch(node, epoch, now),
                NodeStatus::Initializing | NodeStatus::Down => {}
            }
        }
        leader
    }

    /// Something was applied.
    pub fn on_applied(&mut self, index: u64, signals: &[Signal], snapshot: &Snapshot, now: Now) {
        let concerns: Concerns<'_> = &|eval, node| concerns(snapshot, eval, node);
        for signal in signals {
            match signal {
                Signal::EvalPending(eval) => self.broker.enqueue(eval, now),
                Signal::EvalBlocked(eval) => {
                    // It may still be in flight, with the worker that blocked it.
                    self.broker.remove(eval.id);
                    self.blocked.block(Arc::clone(eval), concerns);
                }
                Signal::EvalEnded { id, .. } => {
                    self.broker.remove(*id);
                    self.blocked.remove(*id);
                }
                Signal::JobRemoved(job) | Signal::JobChanged(job) => self.blocked.untrack(job),
                Signal::CapacityFreed { node, class, since } => {
                    let freed = Freed::new(*node, class, *since, index);
                    self.blocked.on_capacity(&freed, concerns);
                }
                Signal::NodeSessionStarted { node, epoch } => {
                    // The server that asked for it may be behind, and send the node elsewhere.
                    let extra = self.config.takeover_extra;
                    self.liveness.begin(*node, *epoch, extra, now);
                    self.owed.watch(*node, *epoch, Duration::ZERO, now);
                }
                Signal::NodeSessionClosed(node) => self.on_session_closed(*node, now),
                Signal::NodeStatusChanged {
                    node, epoch, to, ..
                } => self.on_status(*node, *epoch, *to, now),
                Signal::NodeRemoved(node) => {
                    self.liveness.forget(*node);
                    self.owed.forget(*node);
                    self.windows.forget(*node);
                    self.pending.forget(*node);
                }
                Signal::AllocsDesired { node, .. } => {
                    self.windows.on_changed(*node, now);
                    let ready = snapshot
                        .node(*node)
                        .filter(|record| record.node.status == NodeStatus::Ready);
                    if let Some(record) = ready {
                        self.pending.watch(*node, record.session.epoch, now);
                    }
                }
                Signal::SchedulerConfigChanged => {
                    self.paused = snapshot.scheduler_config().pause_eval_broker;
                }
                Signal::DeploymentChanged(id) => self.rollouts.on_changed(*id, snapshot, now),
                Signal::DeploymentRemoved(id) => self.rollouts.forget(*id),
                Signal::NodeChanged(_)
                | Signal::AllocReported { .. }
                | Signal::SpecCollected(_)
                | Signal::IncarnationChanged
                | Signal::AclChanged => {}
            }
        }
        self.requeue_unblocked(now);
    }

    fn on_session_closed(&mut self, node: NodeId, now: Now) {
        self.owed.forget(node);
        // What is heard of the old session means nothing any more.
        self.liveness.forget(node);
        let none = SessionEpoch::NONE;
        self.liveness.watch(node, none, KNOCK_AGAIN_MAX, now);
    }

    /// A node has another status: other deadlines hold for it.
    fn on_status(&mut self, node: NodeId, epoch: SessionEpoch, to: NodeStatus, now: Now) {
        if to != NodeStatus::Initializing {
            self.owed.forget(node);
        }
        match to {
            // Its session began with the same entry, and was given the time that a Welcome needs.
            NodeStatus::Initializing => {}
            NodeStatus::Ready => self.liveness.watch(node, epoch, Duration::ZERO, now),
            NodeStatus::Disconnected | NodeStatus::Down => self.liveness.forget(node),
        }
        if to == NodeStatus::Ready {
            self.pending.watch(node, epoch, now);
        } else {
            self.pending.forget(node);
        }
        if to == NodeStatus::Disconnected {
            self.windows.watch(node, epoch, now);
        } else {
            self.windows.forget(node);
        }
    }

    /// A node was heard, `age` ago.
    pub fn on_heard(&mut self, node: NodeId, epoch: SessionEpoch, age: Duration, now: Now) {
        self.liveness.heard(node, epoch, age, now);
    }

    /// A server reports whom it heard, and how long ago; perhaps nobody. Answers those whose
    /// sessions are not watched (any more): from their heartbeats no lease may count, since what is
    /// leased to them may be given away from now on.
    pub fn on_report(
        &mut self,
        server: u64,
        heard: impl IntoIterator<Item = (NodeId, SessionEpoch, Duration)>,
        now: Now,
    ) -> Vec<NodeId> {
        self.liveness.on_report(server, now);
        let mut not_watched = Vec::new();
        for (node, epoch, age) in heard {
            if !self.liveness.heard_through(server, node, epoch, age, now) {
                not_watched.push(node);
            }
        }
        not_watched
    }

    /// The next evaluation to schedule; none while the broker is paused.
    pub fn dequeue(&mut self, now: Now) -> Option<Delivery> {
        if self.paused {
            None
        } else {
            self.broker.dequeue(now)
        }
    }

    /// A worker is done, and what it decided is in the log.
    pub fn ack(&mut self, id: EvalId, token: Token) -> bool {
        self.reasons.remove(&id);
        self.broker.ack(id, token)
    }

    /// A worker tried a blocked evaluation in vain, as [`crate::retry::in_vain`] says: it waits on,
    /// without an entry of the log. `false` where the delivery is not the newest one.
    pub fn block_again(
        &mut self,
        eval: Evaluation,
        token: Token,
        snapshot: &Snapshot,
        now: Now,
    ) -> bool {
        if !self.ack(eval.id, token) {
            return false;
        }
        let concerns: Concerns<'_> = &|eval, node| concerns(snapshot, eval, node);
        self.blocked.block(Arc::new(eval), concerns);
        self.requeue_unblocked(now);
        true
    }

    /// Why a delivery is about to be refused: shown if the evaluation fails. Where too many reasons
    /// are kept, one of them is forgotten.
    pub fn note_failure(&mut self, id: EvalId, reason: String) {
        self.reasons.insert(id, reason);
        if self.reasons.len() > REASONS_MAX {
            self.reasons.pop_first();
        }
    }

    /// A worker could not do it.
    pub fn nack(&mut self, id: EvalId, token: Token, now: Now) -> Nacked {
        self.broker.nack(id, token, now)
    }

    /// A plan of an evaluation is being committed, in these pieces, until [`Self::on_plan_over`].
    pub fn on_plan(&mut self, id: EvalId, pieces: &[PlanApply]) {
        self.in_flight.begin(id, pieces);
    }

    /// The plan of an evaluation is in the state, as far as it was not refused. Parked evaluations
    /// become ready: the plan may have taken less than it asked for.
    pub fn on_plan_over(&mut self, id: EvalId) {
        self.in_flight.end(id);
        self.broker.unpark();
    }

    /// What plans in flight will take of each node, beyond what `snapshot` shows. `snapshot` must
    /// not be older than that of the call before.
    pub fn planned(&mut self, snapshot: &Snapshot) -> BTreeMap<NodeId, Usage> {
        self.in_flight.planned(snapshot)
    }

    /// A plan was overtaken, wholly or in part: its evaluation is ready again at once, and never
    /// fails because of it. `false` where the delivery is not the newest one.
    pub fn requeue(
        &mut self,
        id: EvalId,
        token: Token,
        refused: usize,
        by: Option<NodeRejected>,
        now: Now,
    ) -> bool {
        self.broker.requeue(id, token, refused, by, now)
    }

    /// Plans in flight will take the room that an evaluation needs: it waits until one of them is
    /// over. `false` where the delivery is not the newest one.
    pub fn park(&mut self, id: EvalId, token: Token) -> bool {
        let parks = self.broker.park(id, token);
        if self.in_flight.is_empty() {
            self.broker.unpark();
        }
        parks
    }

    /// Whether a delivery is still the newest of its evaluation: a plan of another is void.
    pub fn holds(&mut self, id: EvalId, token: Token, now: Now) -> bool {
        self.broker.extend(id, token, now);
        self.broker.holds(id, token)
    }

    /// How long whoever drives this may sleep: longer, and [`Self::on_woken`] could not tell that
    /// from a stall. `None` where no node is watched.
    pub fn sleep_max(&self) -> Option<Duration> {
        (!self.liveness.is_empty()).then_some(self.config.silence / 4)
    }

    /// Nothing was told for `asleep`. More than half of the silence is no sleep but a stall, of the
    /// process or its host: what nodes said meanwhile may be on its way still, so that they get
    /// that time once more. To be called before anything else is told.
    pub fn on_woken(&mut self, asleep: Duration) {
        if asleep > self.config.silence / 2 {
            self.liveness.on_stalled(asleep);
        }
    }

    /// No majority of the servers answers this one, which therefore hears nothing of the nodes that
    /// speak to the others, and may not even lead any more. Nobody is taken for silent, for owing a
    /// report, for not accepting what is placed or for making no progress before a majority has
    /// been back for a while. To be called again and again.
    pub fn on_quorum_lost(&mut self, now: Now) {
        self.liveness.on_deaf(now);
        self.owed.on_stuck(now);
        self.pending.on_stuck(now);
        let soon = now.monotonic + self.config.silence;
        if self.rollouts.poll_timeout().is_some_and(|due| due < soon) {
            self.rollouts.not_before(soon + self.config.silence);
        }
    }

    /// Lets time pass.
    pub fn on_timeout(&mut self, now: Now) {
        self.broker.on_timeout(now);
    }

    /// The next command to put into the log, if there is one. `ids` draws an id for an evaluation
    /// that has to be made.
    pub fn poll_command(
        &mut self,
        snapshot: &Snapshot,
        ids: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Command> {
        // Whoever asks again had no failure to tell.
        if std::mem::take(&mut self.finding_out) {
            self.liveness
                .settle(|node, epoch| goes_on(snapshot, node, epoch));
        }
        if self.liveness.is_in_doubt() {
            self.finding_out = true;
            return Some(Command::Barrier);
        }
        let nodes = self.liveness.poll_expired(now);
        if !nodes.is_empty() {
            return Some(Command::HeartbeatMissed { nodes });
        }
        let nodes = self.owed.poll_overdue(snapshot, now);
        if !nodes.is_empty() {
            return Some(Command::SyncDeadline { nodes });
        }
        let nodes = self.windows.poll_expired(snapshot, now);
        if !nodes.is_empty() {
            return Some(Command::WindowExpired { nodes });
        }
        let nodes = self.pending.poll_expired(snapshot, now);
        if !nodes.is_empty() {
            return Some(Command::PendingExpired { nodes });
        }
        let mut evals = self.take_unwritten(snapshot);
        if evals.is_empty() {
            evals = self.write_off(ids, now);
        }
        if !evals.is_empty() {
            return Some(Command::EvalsUpsert { evals });
        }
        if let Some(failed) = self.rollouts.poll_command(snapshot, ids, now) {
            return Some(failed);
        }
        if now.monotonic >= self.gc_due {
            if let Some(found) =
                gc::collect(snapshot, &self.config.gc, snapshot.now().max(now.wall))
            {
                // There may be more: look again soon, but let others go first.
                self.gc_due = now.monotonic + Duration::from_secs(1);
                return Some(Command::GcCollect(found));
            }
            self.gc_due = now.monotonic + self.config.gc.look_every();
        }
        None
    }

    /// A command of [`Self::poll_command`] did not get into the log, or nobody knows whether it
    /// did. It has to be told before the next one is asked for.
    pub fn on_command_failed(&mut self, command: Command, now: Now) {
        self.finding_out = false;
        // Everything else repeats itself: the next look for garbage finds the same, and so do
        // overdue reports and windows.
        if let Command::HeartbeatMissed { nodes } = command {
            for (node, epoch) in nodes {
                self.liveness.put_back(node, epoch, now);
            }
        } else if let Command::DeploymentStatus(update) = command {
            self.rollouts.again(update.change.id);
        } else if let Command::EvalsUpsert { evals } = command {
            self.unwritten.push_front(evals);
        }
    }

    /// The state, or the log, will never take a command of [`Self::poll_command`]; `why` is for
    /// people. Most are refused because somebody else did it already: then nothing follows. Of
    /// evaluations that are written off together, one that is refused keeps none of the others:
    /// they are proposed again in halves.
    pub fn on_command_refused(&mut self, command: &Command, why: String) {
        self.finding_out = false;
        if let Command::DeploymentStatus(update) = command {
            self.rollouts.on_refused(update, why);
        } else if let Command::EvalsUpsert { evals } = command {
            for half in halves(evals).into_iter().rev() {
                self.unwritten.push_front(half);
            }
        }
    }

    /// When there is something to do again, by the monotonic clock.
    pub fn poll_timeout(&self) -> Option<Duration> {
        [
            self.broker.poll_timeout(),
            self.liveness.poll_timeout(),
            self.owed.poll_timeout(),
            self.windows.poll_timeout(),
            self.pending.poll_timeout(),
            self.rollouts.poll_timeout(),
            Some(self.gc_due),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// How much the broker holds.
    pub fn broker_stats(&self) -> BrokerStats {
        self.broker.stats()
    }

    /// How many evaluations wait for capacity, and how many of them any node may help.
    pub fn blocked_stats(&self) -> (usize, usize) {
        (self.blocked.len(), self.blocked.escaped())
    }

    /// How many nodes are watched.
    pub fn nodes_watched(&self) -> usize {
        self.liveness.len()
    }

    fn requeue_unblocked(&mut self, now: Now) {
        for eval in self.blocked.take_unblocked(usize::MAX) {
            self.broker.enqueue(&eval, now);
        }
    }

    /// What was written off, the log did not take, and the state does not know to be over.
    fn take_unwritten(&mut self, snapshot: &Snapshot) -> Vec<Evaluation> {
        let open = |id| {
            let eval = snapshot.eval(id);
            eval.is_some_and(|eval| !eval.status.is_terminal())
        };
        while let Some(mut evals) = self.unwritten.pop_front() {
            evals.retain(|eval| match eval.previous_eval {
                // The follow-up of one that failed goes with it.
                Some(failed) if !eval.status.is_terminal() => open(failed),
                Some(_) | None => open(eval.id),
            });
            if !evals.is_empty() {
                return evals;
            }
        }
        Vec::new()
    }

    /// Evaluations that end without being scheduled: needless ones and those that failed.
    fn write_off(&mut self, ids: &mut dyn FnMut() -> EvalId, now: Now) -> Vec<Evaluation> {
        let needless = self
            .broker
            .take_cancelled(WRITE_OFF_MAX)
            .into_iter()
            .chain(self.blocked.take_duplicates(WRITE_OFF_MAX));
        let mut evals: Vec<Evaluation> = needless
            .map(|eval| {
                let mut eval = Evaluation::clone(&eval);
                eval.status = EvalStatus::Cancelled;
                eval.status_description =
                    "cancelled: a newer evaluation of the job took its place".to_owned();
                eval
            })
            .collect();
        for failed in self.broker.take_failed(WRITE_OFF_MAX) {
            let mut again = Evaluation::new(
                ids(),
                &failed.job_key(),
                failed.job_type,
                failed.priority,
                EvalTrigger::FailedFollowUp,
                now.wall,
            );
            let spread = u64::from(again.id.as_bytes()[0]);
            let wait = FOLLOW_UP_AFTER + Duration::from_secs(spread);
            again.wait_until = Some(now.wall.saturating_add(wait));
            again.previous_eval = Some(failed.id);
            let mut over = Evaluation::clone(&failed);
            over.status = EvalStatus::Failed;
            over.status_description = match self.reasons.remove(&failed.id) {
                Some(reason) => format!("failed in three attempts: {reason}"),
                None => "failed: no scheduler finished it in three attempts".to_owned(),
            };
            over.next_eval = Some(again.id);
            evals.push(over);
            evals.push(again);
        }
        evals
    }
}

/// What a new leader adds once, for nodes that have to find another server or to knock anew.
fn takeover_extra(reconnect: Duration, knocks_anew: bool) -> Duration {
    if knocks_anew {
        reconnect.max(KNOCK_AGAIN_MAX)
    } else {
        reconnect
    }
}

/// Evaluations that were written off together, in two halves; nothing where there is only one of
/// them. An evaluation that failed and its follow-up, which comes behind it, stay together.
fn halves(evals: &[Evaluation]) -> Vec<Vec<Evaluation>> {
    let goes_with = |at: usize| evals[at].previous_eval == Some(evals[at - 1].id);
    let middle = evals.len().div_ceil(2);
    let cut = (middle..evals.len())
        .chain((1..middle).rev())
        .find(|at| !goes_with(*at));
    let cut = cut.map(|at| evals.split_at(at));
    cut.map_or_else(Vec::new, |(front, back)| {
        vec![front.to_vec(), back.to_vec()]
    })
}

/// Whether `node` is in the pool and datacenters of an evaluation's job, as far as is known.
fn concerns(snapshot: &Snapshot, eval: &Evaluation, node: NodeId) -> bool {
    let job = snapshot.job(&eval.job_key());
    let record = snapshot.node(node);
    job.zip(record)
        .is_none_or(|(job, record)| covers(job, &record.node))
}

fn in_session(status: NodeStatus) -> bool {
    matches!(status, NodeStatus::Ready | NodeStatus::Initializing)
}

#[cfg(test)]
mod tests;
