//! One server's wish to change the state, as the server's cluster handle carries it out: here or
//! through the leader, again while it is certain that nothing happened, and "unknown" otherwise.

use controlplane_state::news::CompleteReport;
use controlplane_state::{Command, Outcome, Refusal, Stamped};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::leading::Reign;
use super::plans::PlanInHand;
use super::sync::Turn;
use crate::event::{Answer, Event, LogEvent, ServerIx};
use crate::mutant::Mutant;
use crate::net::ConnId;
use crate::time::{MILLI, Nanos, SECOND, wall};
use crate::world::World;
use crate::world::locks::LockRequest;

/// How long a change waits for a leader (as the server).
const PATIENCE: Nanos = 10 * SECOND;
/// How long a forwarded call may take (as the server).
const CALL_MAX: Nanos = 8 * SECOND;
/// How long a leader that was replaced may still take to answer (as the server).
const REPLACED_GRACE: Nanos = 200 * MILLI;
/// The pause before a refused call is tried again (as the server).
const RETRY_PAUSE: Nanos = 50 * MILLI;

/// A change under way.
#[derive(Debug)]
pub struct Change {
    server: ServerIx,
    life: u32,
    stamped: Arc<Stamped>,
    deadline: Nanos,
    attempt: u32,
    /// The leader that it was sent to, where that is another server.
    with: Option<ServerIx>,
    then: Then,
}

/// What its answer is for.
#[derive(Debug)]
pub enum Then {
    /// A Hello.
    Greet(ConnId),
    /// A complete report.
    Synced {
        conn: ConnId,
        report: Box<CompleteReport>,
        turn: Turn,
    },
    /// A node's facts.
    Facts(ConnId),
    /// The coalescer's entry of this number; the term, where other servers' updates are in it.
    Updates { led_in: Option<u64>, number: u64 },
    /// A new leader's barrier, or its first command.
    TakeOver { reign: Reign },
    /// A piece of a plan.
    Plan(Box<PlanInHand>),
    /// A barrier behind a piece of a plan.
    Settled(Box<PlanInHand>),
    /// The leader's housekeeping.
    House { reign: Reign, command: Box<Command> },
    /// A step of a root key.
    Keys { reign: Reign },
    /// An operator's wish.
    Op(u32),
    /// A lock that a client acquires or releases.
    Lock(LockRequest),
}

impl Then {
    /// The term of a leader's own command: proposed there and once, neither forwarded nor tried
    /// again. What only a leader can know is worth nothing once another one leads.
    fn led_in(&self) -> Option<u64> {
        match self {
            Self::TakeOver { reign } | Self::House { reign, .. } | Self::Keys { reign } => {
                Some(reign.term)
            }
            Self::Plan(plan) | Self::Settled(plan) => Some(plan.reign().term),
            Self::Updates { led_in, .. } => *led_in,
            Self::Greet(_) | Self::Synced { .. } | Self::Facts(_) | Self::Op(_) | Self::Lock(_) => {
                None
            }
        }
    }
}

/// Changes under way, of all servers.
#[derive(Debug, Default)]
pub struct Changes {
    /// Boxed: what is in the map is moved about.
    all: BTreeMap<u64, Box<Change>>,
    made: u64,
}

impl Changes {
    /// Who asked for a change.
    pub(super) fn server_of(&self, change: u64) -> Option<ServerIx> {
        self.all.get(&change).map(|change| change.server)
    }
}

impl World {
    /// Asks for a change at a server.
    pub(crate) fn change(&mut self, server: ServerIx, command: Command, then: Then) {
        let skew = self.servers[usize::from(server)].skew;
        let stamped = Arc::new(Stamped {
            now: wall(self.now, skew),
            seed: self.rng.bytes(),
            command,
        });
        self.changes.made += 1;
        let change = self.changes.made;
        let life = self.servers[usize::from(server)].life;
        let deadline = self.now + PATIENCE;
        let made = Change {
            server,
            life,
            stamped,
            deadline,
            attempt: 0,
            with: None,
            then,
        };
        self.changes.all.insert(change, Box::new(made));
        self.try_change(change);
    }

    /// Operators stop waiting for what they wished before everything was healed. What is in the
    /// log's hands already may still happen, before whatever they wish from now on.
    pub(crate) fn abandon_ops(&mut self) {
        self.changes
            .all
            .retain(|_, change| !matches!(change.then, Then::Op(_)));
    }

    pub(crate) fn try_change(&mut self, number: u64) {
        let Some(change) = self.changes.all.get_mut(&number) else {
            return;
        };
        change.attempt += 1;
        let (server, life, attempt) = (change.server, change.life, change.attempt);
        let asking = &self.servers[usize::from(server)];
        if !asking.up || asking.life != life {
            self.changes.all.remove(&number);
            return;
        }
        let leads = asking.believes == Some(server);
        if let Some(term) = change.then.led_in()
            && !(leads && asking.believed_term == term)
        {
            return self.on_answer(number, attempt, Answer::NoLeader);
        }
        change.with = asking.believes.filter(|leader| *leader != server);
        match asking.believes {
            Some(leader) if leader == server => self.propose(number, attempt, leader),
            Some(leader) => {
                // It may never arrive, and its answer may not either.
                self.answer_later(number, attempt, Answer::Unknown, CALL_MAX);
                if self.net.servers_reach(server, leader) {
                    let delay = self.net.server_delay() + self.servers[usize::from(leader)].extra;
                    let change = number;
                    let event = LogEvent::Forwarded { change, leader };
                    self.queue.push(self.now + delay, Event::Log(event));
                }
            }
            None => self.on_answer(number, attempt, Answer::NoLeader),
        }
    }

    /// A server hears of another leader: what the one before was asked is not waited for long.
    pub(super) fn leader_replaced(&mut self, server: ServerIx, leader: ServerIx) {
        let elsewhere = |change: &Change| change.with.is_some_and(|with| with != leader);
        let waiting: Vec<(u64, u32)> = self
            .changes
            .all
            .iter()
            .filter(|(_, change)| change.server == server && elsewhere(change))
            .map(|(number, change)| (*number, change.attempt))
            .collect();
        for (number, attempt) in waiting {
            self.answer_later(number, attempt, Answer::Unknown, REPLACED_GRACE);
        }
    }

    /// A forwarded change arrives.
    pub(crate) fn on_forwarded(&mut self, number: u64, leader: ServerIx) {
        let Some(change) = self.changes.all.get(&number) else {
            return;
        };
        let attempt = change.attempt;
        let asked = &self.servers[usize::from(leader)];
        if !asked.up {
            return;
        }
        // Updates wait in the leader's own queue.
        if let Command::AllocUpdates { batches } = &change.stamped.command
            && asked.believes == Some(leader)
        {
            let batches = batches.clone();
            return self.take_merged(leader, (number, attempt), batches);
        }
        self.propose(number, attempt, leader);
    }

    fn propose(&mut self, number: u64, attempt: u32, leader: ServerIx) {
        let Some(change) = self.changes.all.get(&number) else {
            return;
        };
        if self.servers[usize::from(leader)].believes != Some(leader) {
            let delay = self.net.server_delay();
            self.answer_later(number, attempt, Answer::NoLeader, delay);
            return;
        }
        if self.log.leader == Some(leader) {
            let stamped = Arc::clone(&change.stamped);
            let is_wish = matches!(change.then, Then::Op(_));
            let early = match stamped.command {
                Command::JobDispatch(_) => self.mutant == Some(Mutant::DispatchedEarly),
                _ => self.mutant == Some(Mutant::AckBeforeMajority),
            };
            if is_wish && early {
                let applied = self.would_be_applied(&stamped);
                self.append(stamped, None);
                return self.answer_from(
                    leader,
                    (number, attempt),
                    applied.index,
                    &applied.outcome,
                );
            }
            self.append(stamped, Some((number, attempt)));
            return;
        }
        // A leader that does not know yet that it is none: its entry never gets anywhere.
        let wait = self.rng.between(SECOND, CALL_MAX);
        self.answer_later(number, attempt, Answer::Unknown, wait);
    }

    /// The leader that proposed an entry has applied it: whoever asked is told.
    pub(crate) fn answer_from(
        &mut self,
        leader: ServerIx,
        waits: (u64, u32),
        index: u64,
        outcome: &Outcome,
    ) {
        let answer = match outcome {
            Outcome::Refused(refusal) => Answer::Refused(refusal.clone()),
            outcome => Answer::Done {
                index,
                outcome: outcome.clone(),
            },
        };
        self.answer_asker(leader, waits, answer);
    }

    /// Tells the server that asked, where it can be reached.
    pub(super) fn answer_asker(&mut self, leader: ServerIx, waits: (u64, u32), answer: Answer) {
        let (number, attempt) = waits;
        let Some(asked) = self.changes.all.get(&number).map(|change| change.server) else {
            return;
        };
        if asked == leader {
            self.on_answer(number, attempt, answer);
        } else if self.net.servers_reach(leader, asked) {
            let delay = self.net.server_delay() + self.servers[usize::from(asked)].extra;
            self.answer_later(number, attempt, answer, delay);
        }
    }

    fn answer_later(&mut self, change: u64, attempt: u32, answer: Answer, wait: Nanos) {
        let answer = Box::new(answer);
        let event = LogEvent::Answer {
            change,
            attempt,
            answer,
        };
        self.queue.push(self.now + wait, Event::Log(event));
    }

    pub(crate) fn on_answer(&mut self, number: u64, attempt: u32, answer: Answer) {
        let Some(change) = self.changes.all.get(&number) else {
            return;
        };
        if change.attempt != attempt {
            return;
        }
        let early = matches!(
            answer,
            Answer::NoLeader | Answer::Refused(Refusal::NotInitialized)
        );
        let again = change.then.led_in().is_none() && self.now + RETRY_PAUSE < change.deadline;
        if early && again {
            let event = LogEvent::Try { change: number };
            self.queue.push(self.now + RETRY_PAUSE, Event::Log(event));
            return;
        }
        let Some(change) = self.changes.all.remove(&number) else {
            return;
        };
        let change = *change;
        let asked = &self.servers[usize::from(change.server)];
        if !asked.up || asked.life != change.life {
            return;
        }
        self.finish_change(change.server, change.then, answer);
    }

    fn finish_change(&mut self, server: ServerIx, then: Then, answer: Answer) {
        match then {
            Then::Greet(conn) => self.on_greeted(server, conn, answer),
            Then::Synced { conn, report, turn } => {
                self.on_synced(server, conn, report, turn, &answer);
            }
            Then::Facts(conn) => self.on_facts_kept(server, conn, &answer),
            Then::Updates { number, .. } => self.on_updates_answered(server, number, answer),
            Then::TakeOver { reign } => self.on_take_over_step(server, reign, &answer),
            Then::Plan(plan) => self.on_plan_done(server, plan, &answer),
            Then::Settled(plan) => self.on_plan_settled(server, plan, &answer),
            Then::House { reign, command } => {
                self.on_house_kept(server, reign, *command, &answer);
            }
            Then::Keys { reign } => self.on_keys_done(server, reign, &answer),
            Then::Op(op) => self.on_op_done(op, &answer),
            Then::Lock(request) => self.on_lock_changed(request, &answer),
        }
    }
}
