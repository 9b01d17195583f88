//! The leader's loop: the server's `leading/*`. The parts are the product's; what is imitated is
//! the order in which they are asked.

use std::time::Duration;

use controlplane_leader::broker::Delivery;
use controlplane_leader::gc::GcThresholds;
use controlplane_leader::{Leader, LeaderConfig, Now, plan};
use controlplane_scheduler::{Decision, Scratch, schedule};
use controlplane_state::command::PlanApply;
use controlplane_state::{Command, Signal, Snapshot};
use protocol_model::{EvalId, Incarnation, JobType};

use super::change::Then;
use super::heard::{Heard, age};
use crate::event::{Answer, Decided, ServerEvent, ServerIx};
use crate::mutant::Mutant;
use crate::node_ids::node_id;
use crate::time::{MILLI, Nanos, nanos, wall};
use crate::world::World;

/// How long a node may be silent (the server's default).
const SILENCE: Duration = Duration::from_millis(2_600);
/// What a new leader adds once (as the server).
const TAKEOVER_EXTRA: Duration = Duration::from_millis(1_500);
/// Scheduler threads.
const SCHEDULERS: usize = 2;
/// Attempts at one delivery (as the server).
const ATTEMPTS_MAX: u32 = 5;
const ATTEMPTS_BATCH_MAX: u32 = 2;

/// One term of leading.
#[derive(Debug)]
pub(super) struct Leading {
    term: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The barrier is in the log's hands; reports of who lives wait.
    TakingOver(Vec<Heard>),
    Running(Box<Running>),
}

#[derive(Debug)]
struct Running {
    leader: Leader,
    since: u64,
    busy: usize,
    house: bool,
    scratch: Scratch,
    armed: Option<Nanos>,
}

impl World {
    fn leader_now(&self, ix: ServerIx) -> Now {
        let skew = self.servers[usize::from(ix)].skew;
        Now {
            monotonic: Duration::from_nanos(self.now),
            wall: wall(self.now, skew),
        }
    }

    pub(super) fn take_over(&mut self, ix: ServerIx, term: u64) {
        let stage = Stage::TakingOver(Vec::new());
        self.servers[usize::from(ix)].leading = Some(Leading { term, stage });
        self.change(ix, Command::Barrier, Then::TakeOver { term });
    }

    pub(super) fn on_take_over_step(&mut self, ix: ServerIx, term: u64, answer: &Answer) {
        let server = &self.servers[usize::from(ix)];
        if !is_term(server.leading.as_ref(), term) {
            return;
        }
        if matches!(answer, Answer::NoLeader | Answer::Unknown) {
            // Tried again for as long as this server is told that it leads.
            return self.take_over(ix, term);
        }
        if server.snapshot.cluster().incarnation.is_none() {
            let incarnation = Incarnation::from_u128(self.rng.id());
            let command = Command::ClusterInit { incarnation };
            return self.change(ix, command, Then::TakeOver { term });
        }
        let snapshot = server.snapshot.clone();
        let silence = match self.mutant {
            Some(Mutant::SlowDetection) => SILENCE + Duration::from_secs(3) * self.schedule.nodes,
            _ => SILENCE,
        };
        let keep = Duration::from_secs(45);
        let config = LeaderConfig {
            silence,
            takeover_extra: match self.mutant {
                Some(Mutant::LongTakeOver) => Duration::from_secs(300),
                _ => TAKEOVER_EXTRA,
            },
            gc: GcThresholds {
                evals: keep,
                jobs: keep,
                nodes: Duration::from_secs(3600),
                deployments: keep,
            },
        };
        let now = self.leader_now(ix);
        let leader = if self.mutant == Some(Mutant::TimersLostAtFailover) {
            let mut leader = Leader::take_over(&Snapshot::default(), config, now);
            let pending = snapshot.evals().filter(|eval| !eval.status.is_terminal());
            let signals: Vec<Signal> = pending
                .map(|eval| Signal::EvalPending(eval.clone()))
                .collect();
            leader.on_applied(snapshot.index(), &signals, &snapshot, now);
            leader
        } else {
            Leader::take_over(&snapshot, config, now)
        };
        let Some(leading) = self.servers[usize::from(ix)].leading.as_mut() else {
            return;
        };
        let running = Stage::Running(Box::new(Running {
            leader,
            since: snapshot.index(),
            busy: 0,
            house: false,
            scratch: Scratch::new(),
            armed: None,
        }));
        let early = match std::mem::replace(&mut leading.stage, running) {
            Stage::TakingOver(early) => early,
            Stage::Running(_) => Vec::new(),
        };
        self.lead_on_heard(ix, &early);
        self.turn(ix);
    }

    fn running(&mut self, ix: ServerIx) -> Option<(u64, &mut Running)> {
        let leading = self.servers[usize::from(ix)].leading.as_mut()?;
        match &mut leading.stage {
            Stage::Running(running) => Some((leading.term, running)),
            Stage::TakingOver(_) => None,
        }
    }

    pub(super) fn lead_on_applied(&mut self, ix: ServerIx, index: u64, signals: &[Signal]) {
        if self.servers[usize::from(ix)].leading.is_none() || signals.is_empty() {
            return;
        }
        let now = self.leader_now(ix);
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        let Some((_, running)) = self.running(ix) else {
            return;
        };
        if index > running.since {
            running.leader.on_applied(index, signals, &snapshot, now);
            self.turn(ix);
        }
    }

    pub(super) fn lead_on_heard(&mut self, ix: ServerIx, heard: &[Heard]) {
        let (now, at) = (self.leader_now(ix), self.now);
        let Some(leading) = self.servers[usize::from(ix)].leading.as_mut() else {
            return;
        };
        match &mut leading.stage {
            Stage::TakingOver(early) => early.extend_from_slice(heard),
            Stage::Running(running) => {
                for one in heard {
                    let node = node_id(one.node);
                    running.leader.on_heard(node, one.epoch, age(one, at), now);
                }
                self.turn(ix);
            }
        }
    }

    pub(super) fn on_leader_timer(&mut self, ix: ServerIx, term: u64) {
        let at = self.now;
        if let Some((own, running)) = self.running(ix)
            && own == term
            && running.armed.is_some_and(|armed| armed <= at)
        {
            running.armed = None;
            self.turn(ix);
        }
    }

    /// Hands out what can be handed out, and asks to be woken.
    fn turn(&mut self, ix: ServerIx) {
        let now = self.leader_now(ix);
        let at = self.now;
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        if let Some((_, running)) = self.running(ix) {
            running.leader.on_timeout(now);
        }
        while let Some((_, running)) = self.running(ix)
            && running.busy < SCHEDULERS
        {
            let Some(delivery) = running.leader.dequeue(now) else {
                break;
            };
            self.work(ix, delivery, 1);
        }
        let mut drawn = self.rng.clone();
        let mut ids = || EvalId::from_u128(drawn.id());
        let mut command = None;
        if let Some((_, running)) = self.running(ix)
            && !running.house
        {
            command = running.leader.poll_command(&snapshot, &mut ids, now);
            running.house = command.is_some();
        }
        self.rng = drawn;
        let Some((term, running)) = self.running(ix) else {
            return;
        };
        let due = running.leader.poll_timeout().map(nanos);
        if let Some(due) = due
            && running.armed.is_none_or(|armed| due < armed)
        {
            // What is due already waits for the housekeeping in the log's hands; the server's loop
            // turns meanwhile, and in virtual time each turn must take some.
            let due = due.max(at + MILLI);
            running.armed = Some(due);
            let wait = due - at;
            self.server_event(ix, wait, ServerEvent::LeaderTimer { term });
        }
        if let Some(command) = command {
            let then = Then::House {
                term,
                command: Box::new(command.clone()),
            };
            self.change(ix, command, then);
        }
    }

    pub(super) fn on_house_kept(
        &mut self,
        ix: ServerIx,
        term: u64,
        command: Command,
        answer: &Answer,
    ) {
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != term {
            return;
        }
        running.house = false;
        match answer {
            Answer::Done { .. } => {}
            Answer::Refused(refusal) => {
                running
                    .leader
                    .on_command_refused(&command, refusal.to_string());
            }
            Answer::NoLeader | Answer::Unknown => running.leader.on_command_failed(command),
        }
        self.turn(ix);
    }

    /// A scheduler thread takes an evaluation.
    fn work(&mut self, ix: ServerIx, delivery: Delivery, attempt: u32) {
        let seed = self.rng.bytes();
        let takes = self.rng.between(MILLI / 5, 15 * MILLI);
        let skew = self.servers[usize::from(ix)].skew;
        let now = wall(self.now, skew);
        let extra = self.servers[usize::from(ix)].extra;
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        self.counts.scheduled += 1;
        let Some((term, running)) = self.running(ix) else {
            return;
        };
        running.busy += 1;
        let decision = schedule(&snapshot, &delivery.eval, seed, &mut running.scratch, now);
        let decided = Decided {
            term,
            delivery,
            attempt,
            decision,
        };
        let event = ServerEvent::Decided(Box::new(decided));
        self.server_event(ix, takes + extra, event);
    }

    pub(super) fn on_decided(&mut self, ix: ServerIx, decided: Decided) {
        let Decided {
            term,
            delivery,
            attempt,
            decision: Decision { plan, .. },
        } = decided;
        let now = self.leader_now(ix);
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != term {
            return;
        }
        running.busy = running.busy.saturating_sub(1);
        if !running.leader.holds(delivery.eval.id, delivery.token, now) {
            return self.turn(ix);
        }
        let whole = snapshot
            .job(&delivery.eval.job_key())
            .is_some_and(|job| job.all_at_once);
        let commit = if whole {
            plan::Commit::Whole
        } else {
            plan::Commit::Partial
        };
        let checked = plan::check(&snapshot, plan, commit);
        if checked.rejected.is_empty() {
            self.propose_plan(ix, term, delivery, attempt, checked.plan, true);
            return self.turn(ix);
        }
        let part = PlanApply {
            evals: Vec::new(),
            ..checked.plan
        };
        let empty = part.placed.is_empty()
            && part.updated.is_empty()
            && part.changed.is_empty()
            && part.preempted.is_empty();
        if empty {
            self.again(ix, delivery, attempt);
        } else {
            self.propose_plan(ix, term, delivery, attempt, part, false);
        }
        self.turn(ix);
    }

    fn propose_plan(
        &mut self,
        ix: ServerIx,
        term: u64,
        delivery: Delivery,
        attempt: u32,
        plan: PlanApply,
        whole: bool,
    ) {
        let then = Then::Plan {
            term,
            delivery,
            attempt,
            whole,
        };
        self.change(ix, Command::PlanApply(Box::new(plan)), then);
    }

    pub(super) fn on_plan_done(
        &mut self,
        ix: ServerIx,
        term: u64,
        delivery: Delivery,
        attempt: u32,
        whole: bool,
        answer: &Answer,
    ) {
        let now = self.leader_now(ix);
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != term {
            return;
        }
        match answer {
            Answer::Done { .. } if whole => {
                running.leader.ack(delivery.eval.id, delivery.token);
            }
            Answer::Done { .. } | Answer::Refused(_) => self.again(ix, delivery, attempt),
            Answer::NoLeader | Answer::Unknown => {
                running.leader.nack(delivery.eval.id, delivery.token, now);
            }
        }
        self.turn(ix);
    }

    fn again(&mut self, ix: ServerIx, delivery: Delivery, attempt: u32) {
        let now = self.leader_now(ix);
        let Some((_, running)) = self.running(ix) else {
            return;
        };
        let attempts_max = match delivery.eval.job_type {
            JobType::Batch | JobType::Sysbatch => ATTEMPTS_BATCH_MAX,
            JobType::Service | JobType::System => ATTEMPTS_MAX,
        };
        let (id, token) = (delivery.eval.id, delivery.token);
        if attempt >= attempts_max || !running.leader.holds(id, token, now) {
            running.leader.nack(id, token, now);
            return;
        }
        self.work(ix, delivery, attempt + 1);
    }
}

fn is_term(leading: Option<&Leading>, term: u64) -> bool {
    leading.is_some_and(|leading| leading.term == term)
}
