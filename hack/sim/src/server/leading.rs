//! The leader's loop: the server's `leading/*`. The parts are the product's; what is imitated is
//! the order in which they are asked.

use std::collections::VecDeque;
use std::time::Duration;

use controlplane_leader::gc::GcThresholds;
use controlplane_leader::{Effect, Leader, LeaderConfig, Now, Reading};
use controlplane_scheduler::{Lanes, Scratch};
use controlplane_state::command::DrainMark;
use controlplane_state::{Command, SessionEpoch, Signal, Snapshot};
use protocol_model::reconnect::time_to_return;
use protocol_model::{EvalId, Incarnation, NodeId};

use super::change::Then;
use super::heard::{Heard, age};
use super::keys::KeysInHand;
use super::locks;
use crate::event::{Answer, NodeIx, ServerEvent, ServerIx};
use crate::mutant::Mutant;
use crate::node_ids::{node_id, node_ix};
use crate::time::{MILLI, Nanos, nanos, wall};
use crate::world::World;

/// How long a node may be silent (the server's default).
const SILENCE: Duration = Duration::from_millis(2_600);
/// What a new leader adds once (as the server).
const TAKEOVER_EXTRA: Duration = Duration::from_millis(1_500);
/// How often the loop turns while something is due that has to wait for the log (as the server).
const HOUSEKEEPING_PAUSE: Nanos = 20 * MILLI;
/// Scheduler threads.
const SCHEDULERS: usize = 2;

/// One time of leading: a leader whose majority was gone for long begins anew in its term, and what
/// it had begun before is nobody's then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reign {
    pub(super) term: u64,
    begun: u64,
}

/// What is done in it.
#[derive(Debug)]
pub(super) struct Leading {
    reign: Reign,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The barrier is in the log's hands; reports of who lives wait.
    TakingOver(Vec<(ServerIx, Reading, Vec<Heard>)>),
    Running(Box<Running>),
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) leader: Leader,
    since: u64,
    /// Of scheduler threads at work.
    pub(super) lanes: Lanes,
    house: bool,
    pub(super) keys: KeysInHand,
    pub(super) scratch: Scratch,
    armed: Option<Nanos>,
    /// When its loop last did something.
    awake: Duration,
    /// Expiries that a planted bug keeps for entries of their own.
    apart: VecDeque<(NodeId, SessionEpoch)>,
}

impl Running {
    /// Its loop goes on, whatever for: its parts learn how long they were told nothing.
    fn go_on(&mut self, now: Duration) {
        self.leader.on_woken(now.saturating_sub(self.awake));
        self.awake = now;
    }

    /// Of nodes that expire together only the first does, and then each of the others.
    fn one_by_one(&mut self, command: Option<Command>) -> Option<Command> {
        let command = match command {
            Some(Command::HeartbeatMissed { nodes }) => {
                self.apart.extend(nodes);
                None
            }
            command => command,
        };
        command.or_else(|| {
            let nodes = vec![self.apart.pop_front()?];
            Some(Command::HeartbeatMissed { nodes })
        })
    }
}

impl World {
    pub(super) fn leader_now(&self, ix: ServerIx) -> Now {
        let skew = self.servers[usize::from(ix)].skew;
        Now {
            monotonic: Duration::from_nanos(self.now),
            wall: wall(self.now, skew),
        }
    }

    pub(super) fn take_over(&mut self, ix: ServerIx, term: u64) {
        let stage = Stage::TakingOver(Vec::new());
        let begun = self.reigns + 1;
        self.reigns = begun;
        let reign = Reign { term, begun };
        self.servers[usize::from(ix)].leading = Some(Leading { reign, stage });
        self.change(ix, Command::Barrier, Then::TakeOver { reign });
    }

    pub(super) fn on_take_over_step(&mut self, ix: ServerIx, reign: Reign, answer: &Answer) {
        let server = &self.servers[usize::from(ix)];
        if server.leading.as_ref().map(|it| it.reign) != Some(reign) {
            return;
        }
        if matches!(answer, Answer::NoLeader | Answer::Unknown) {
            // Tried again for as long as this server is told that it leads.
            return self.take_over(ix, reign.term);
        }
        if server.snapshot.cluster().incarnation.is_none() {
            let incarnation = Incarnation::from_u128(self.rng.id());
            let command = Command::ClusterInit { incarnation };
            return self.change(ix, command, Then::TakeOver { reign });
        }
        let snapshot = server.snapshot.clone();
        let silence = match self.mutant {
            Some(Mutant::SlowDetection) => SILENCE + Duration::from_secs(3) * self.schedule.nodes,
            _ => SILENCE,
        };
        let keep = self.schedule.remembers;
        let config = LeaderConfig {
            silence,
            takeover_extra: match self.mutant {
                Some(Mutant::LongTakeOver) => Duration::from_secs(300),
                _ => TAKEOVER_EXTRA,
            },
            servers: self.servers.len(),
            gc: GcThresholds {
                evals: keep,
                jobs: keep,
                nodes: Duration::from_secs(3600),
                deployments: keep,
            },
        };
        let (now, tenure) = (self.leader_now(ix), self.tenure_of(ix));
        if snapshot.nodes().next().is_some() {
            self.on_time_given(ix, time_to_return(config.servers).saturating_sub(tenure));
        }
        let leader = if self.mutant == Some(Mutant::TimersLostAtFailover) {
            let mut leader = Leader::take_over(&Snapshot::default(), config, tenure, now);
            let pending = snapshot.evals().filter(|eval| !eval.status.is_terminal());
            let signals: Vec<Signal> = pending
                .map(|eval| Signal::EvalPending(eval.clone()))
                .collect();
            leader.on_applied(snapshot.index(), &signals, &snapshot, now);
            leader
        } else {
            Leader::take_over(&snapshot, config, tenure, now)
        };
        let Some(leading) = self.servers[usize::from(ix)].leading.as_mut() else {
            return;
        };
        let running = Stage::Running(Box::new(Running {
            leader,
            since: snapshot.index(),
            lanes: Lanes::new(SCHEDULERS),
            house: false,
            keys: KeysInHand::default(),
            scratch: Scratch::new(),
            armed: None,
            awake: now.monotonic,
            apart: VecDeque::new(),
        }));
        let early = match std::mem::replace(&mut leading.stage, running) {
            Stage::TakingOver(early) => early,
            Stage::Running(_) => Vec::new(),
        };
        for (from, reading, heard) in early {
            self.lead_on_heard(ix, from, reading, &heard);
        }
        self.begin_keys(ix, reign);
        self.turn(ix);
    }

    pub(super) fn running(&mut self, ix: ServerIx) -> Option<(Reign, &mut Running)> {
        let now = Duration::from_nanos(self.now);
        let leading = self.servers[usize::from(ix)].leading.as_mut()?;
        match &mut leading.stage {
            Stage::Running(running) => {
                running.go_on(now);
                Some((leading.reign, running))
            }
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

    /// For how long somebody has led, as far as a server knows.
    pub(crate) fn tenure_of(&self, ix: ServerIx) -> Duration {
        let complete = time_to_return(self.servers.len());
        let now = Duration::from_nanos(self.now);
        self.servers[usize::from(ix)].tenure.lasted(now, complete)
    }

    /// The majority of a leader is back, and nodes were without one for too long: it leads anew.
    pub(crate) fn lead_anew(&mut self, ix: ServerIx) {
        if self.tenure_of(ix) == Duration::ZERO
            && let Some(Leading { reign, .. }) = self.servers[usize::from(ix)].leading
        {
            self.take_over(ix, reign.term);
        }
    }

    /// A server's report: whom it heard, perhaps nobody.
    /// Answers whose sessions the leader does not watch; `None` while it cannot say.
    pub(super) fn lead_on_heard(
        &mut self,
        ix: ServerIx,
        from: ServerIx,
        reading: Reading,
        heard: &[Heard],
    ) -> Option<Vec<NodeIx>> {
        let (now, at) = (self.leader_now(ix), self.now);
        let leading = self.servers[usize::from(ix)].leading.as_mut()?;
        match &mut leading.stage {
            Stage::TakingOver(early) => {
                early.push((from, reading, heard.to_vec()));
                None
            }
            Stage::Running(running) => {
                running.go_on(now.monotonic);
                if from == ix && reading != Reading::InTime {
                    // Reports of the other servers may be unread here, too.
                    running.leader.on_unheard(now);
                }
                let heard = heard.iter();
                let heard = heard.map(|one| (node_id(one.node), one.epoch, age(one, at)));
                let not_watched = running
                    .leader
                    .on_report(u64::from(from), reading, heard, now);
                self.turn(ix);
                Some(not_watched.into_iter().map(node_ix).collect())
            }
        }
    }

    pub(super) fn on_leader_timer(&mut self, ix: ServerIx, reign: Reign) {
        let at = self.now;
        if let Some((own, running)) = self.running(ix)
            && own == reign
            && running.armed.is_some_and(|armed| armed <= at)
        {
            running.armed = None;
            self.turn(ix);
        }
    }

    /// Hands out what can be handed out, and asks to be woken.
    pub(super) fn turn(&mut self, ix: ServerIx) {
        let now = self.leader_now(ix);
        let at = self.now;
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        let found = self.may_confirm(ix);
        let complete = time_to_return(self.servers.len());
        if found {
            let server = &mut self.servers[usize::from(ix)];
            server.tenure.led(now.monotonic, complete);
        }
        if let Some((_, running)) = self.running(ix) {
            if !found {
                running.leader.on_unheard(now);
            }
            running.leader.on_timeout(now);
        }
        while let Some((_, running)) = self.running(ix)
            && running.lanes.is_open()
        {
            let Some(delivery) = running.leader.evaluations.dequeue(now) else {
                break;
            };
            self.work(ix, delivery);
        }
        let mut drawn = self.rng.clone();
        let mut ids = || EvalId::from_u128(drawn.id());
        let mut command = None;
        let mutant = self.mutant;
        if let Some((_, running)) = self.running(ix)
            && !running.house
        {
            let effect = running.leader.poll_effect(&snapshot, &mut ids, now);
            command = effect.map(|Effect::Command(command)| command);
            let since = running.since;
            command = command.filter(|it| !forgotten(mutant, it, since));
            if mutant == Some(Mutant::OneNodePerExpiry) {
                command = running.one_by_one(command);
            }
            command = command.or_else(|| locks::planted(mutant, &snapshot, since, now));
            running.house = command.is_some();
        }
        self.rng = drawn;
        let Some((reign, running)) = self.running(ix) else {
            return;
        };
        let due = running.leader.poll_timeout().map(nanos);
        let rest = running.leader.sleep_max().map(|rest| at + nanos(rest));
        let due = match (due, rest) {
            (Some(due), Some(rest)) => Some(due.min(rest)),
            (due, rest) => due.or(rest),
        };
        if let Some(due) = due
            && running.armed.is_none_or(|armed| due < armed)
        {
            // What is due already waits for the housekeeping in the log's hands; the server's loop
            // turns meanwhile, and in virtual time each turn must take some.
            let pause = if running.house {
                HOUSEKEEPING_PAUSE
            } else {
                MILLI
            };
            let due = due.max(at + pause);
            running.armed = Some(due);
            let wait = due - at;
            self.server_event(ix, wait, ServerEvent::LeaderTimer { reign });
        }
        if let Some(command) = command {
            let then = Then::House {
                reign,
                command: Box::new(command.clone()),
            };
            self.change(ix, command, then);
        }
    }

    pub(super) fn on_house_kept(
        &mut self,
        ix: ServerIx,
        reign: Reign,
        command: Command,
        answer: &Answer,
    ) {
        let now = self.leader_now(ix);
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != reign {
            return;
        }
        running.house = false;
        match answer {
            Answer::Done { .. } => {}
            Answer::Refused(refusal) => {
                let effect = Effect::Command(command);
                running.leader.on_refused(&effect, &refusal.to_string());
            }
            Answer::NoLeader | Answer::Unknown => {
                running.leader.on_failed(&Effect::Command(command), now);
            }
        }
        self.turn(ix);
    }
}

/// Whether a planted bug keeps a command of a leader since this index from the log.
fn forgotten(mutant: Option<Mutant>, command: &Command, since: u64) -> bool {
    match command {
        Command::WindowExpired { .. } => mutant == Some(Mutant::WindowsNeverEnd),
        Command::SyncDeadline { .. } => mutant == Some(Mutant::OwedForEver),
        Command::DeploymentStatus(_) => mutant == Some(Mutant::RolloutsUnwatched),
        Command::DeploymentPromote(_) => mutant == Some(Mutant::PromotionsForgotten),
        Command::PeriodicLaunch(_) => mutant == Some(Mutant::LaunchesForgotten),
        Command::AllocsMigrate { nodes } => {
            let mut marks = nodes.iter().flat_map(|it| &it.marks);
            match mutant {
                Some(Mutant::DeadlinesForgotten) => {
                    marks.any(|(_, mark)| *mark != DrainMark::Migrate)
                }
                Some(Mutant::DrainsDiscontinued) => {
                    nodes.iter().any(|node| node.drain_index <= since)
                }
                _ => false,
            }
        }
        Command::VariableLocksExpire(_) => mutant == Some(Mutant::LocksNeverEnd),
        Command::NodeDrainComplete { .. } => mutant == Some(Mutant::DrainsNeverOver),
        Command::PendingExpired { .. } => mutant == Some(Mutant::PendingForEver),
        _ => false,
    }
}
