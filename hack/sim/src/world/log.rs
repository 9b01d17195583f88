//! The replicated log, modelled: entries wait for a majority, a lost leader takes some of what was
//! in flight along, and nobody who asked knows which.
//!
//! ```text
//!   propose --> in flight --(commit delay, majority)--> state --> servers, each in its time
//!                  |
//!                  +-- leader lost: the first few were on a majority and are committed by the next
//!                      one, the rest never happened; both proposers hear "unknown"
//! ```

use std::collections::VecDeque;

use controlplane_state::{Applied, Command, Snapshot, Stamped, State};

use super::World;
use crate::event::{Answer, Event, LogEvent, ServerEvent, ServerIx};
use crate::invariants::Observation;
use crate::rng::Rng;
use crate::time::{MICRO, MILLI, Nanos, SECOND};

/// Entries that followers can still read; one further behind takes a snapshot.
const HISTORY_MAX: usize = 2048;

/// The log and the one true state.
#[derive(Debug)]
pub struct Log {
    pub state: State,
    pub term: u64,
    /// Who leads, whoever else believes it.
    pub leader: Option<ServerIx>,
    /// The newest log index, entries without a command included.
    pub index: u64,
    pub in_flight: VecDeque<InFlight>,
    /// What was committed, oldest first; the first has the number `trimmed`.
    history: VecDeque<Committed>,
    trimmed: u64,
    electing: bool,
    /// What disks take longer for every entry.
    pub extra: Nanos,
    /// Since when it leads with a majority.
    since: Option<Nanos>,
    rng: Rng,
}

/// An entry that is not on a majority yet.
#[derive(Debug)]
pub struct InFlight {
    pub stamped: Stamped,
    /// Who waits for it: the change and its attempt.
    pub waits: Option<(u64, u32)>,
    pub ready_at: Nanos,
}

/// An entry that is.
#[derive(Clone, Debug)]
pub struct Committed {
    pub snapshot: Snapshot,
    pub applied: Applied,
    pub waits: Option<(u64, u32)>,
    /// Who proposed it, and answers.
    pub proposer: Option<ServerIx>,
}

impl Log {
    pub fn new(rng: Rng) -> Self {
        Self {
            state: State::new(),
            term: 0,
            leader: None,
            index: 0,
            in_flight: VecDeque::new(),
            history: VecDeque::new(),
            trimmed: 0,
            electing: false,
            extra: 0,
            since: None,
            rng,
        }
    }

    /// How many entries were committed.
    pub fn committed(&self) -> u64 {
        self.trimmed + self.history.len() as u64
    }

    /// A committed entry by its number, while it is kept.
    pub fn entry(&self, number: u64) -> Option<&Committed> {
        let offset = usize::try_from(number.checked_sub(self.trimmed)?).ok()?;
        self.history.get(offset)
    }
}

impl World {
    /// Whether a server can get entries onto a majority.
    pub fn has_majority(&self, server: ServerIx) -> bool {
        let of = self.servers.len();
        let reached = (0..of).filter(|other| {
            let ix = u8::try_from(*other).unwrap_or(0);
            self.servers[*other].up && self.net.servers_reach(server, ix)
        });
        self.servers[usize::from(server)].up && reached.count() * 2 > of
    }

    /// Puts an entry into the log, where `server` leads.
    pub(crate) fn append(&mut self, stamped: Stamped, waits: Option<(u64, u32)>) {
        let Some(leader) = self.log.leader else {
            return;
        };
        let extra = self.servers[usize::from(leader)].extra + self.log.extra;
        let delay = self.log.rng.between(600 * MICRO, 4 * MILLI) + extra;
        let last = self.log.in_flight.back().map_or(0, |it| it.ready_at);
        let ready_at = (self.now + delay).max(last);
        self.log.in_flight.push_back(InFlight {
            stamped,
            waits,
            ready_at,
        });
        let term = self.log.term;
        self.queue
            .push(ready_at, Event::Log(LogEvent::Commit { term }));
    }

    /// Commits what is ready, where the leader still has its majority.
    pub(crate) fn commit(&mut self, term: u64) {
        let Some(leader) = self.log.leader.filter(|_| term == self.log.term) else {
            return;
        };
        if !self.has_majority(leader) {
            return;
        }
        let before = self.log.committed();
        while self
            .log
            .in_flight
            .front()
            .is_some_and(|it| it.ready_at <= self.now)
        {
            if let Some(entry) = self.log.in_flight.pop_front() {
                self.commit_entry(entry, Some(leader));
            }
        }
        if self.log.committed() > before {
            self.spread();
        }
    }

    fn commit_entry(&mut self, entry: InFlight, proposer: Option<ServerIx>) {
        let InFlight { stamped, waits, .. } = entry;
        let stamped = self.bend(stamped);
        for (number, part) in self.split(stamped).into_iter().enumerate() {
            let waits = waits.filter(|_| number == 0);
            let before = self.before_part(&part);
            let (now, seed) = (part.now, part.seed);
            self.apply(part, waits, proposer);
            self.after_part(before, now, seed);
        }
    }

    /// Applies one command to the one true state.
    pub(crate) fn apply(
        &mut self,
        stamped: Stamped,
        waits: Option<(u64, u32)>,
        proposer: Option<ServerIx>,
    ) {
        self.log.index += 1;
        let index = self.log.index;
        let before = self.log.state.snapshot();
        let command: Command = stamped.command.clone();
        self.count_command(&command);
        let applied = self.log.state.apply(index, stamped);
        let snapshot = self.log.state.snapshot();
        self.note_command(index, &command, &applied);
        self.clients.on_applied(&command, &applied);
        self.observe(Observation::Applied {
            before: &before,
            after: &snapshot,
            command: &command,
            applied: &applied,
        });
        if self.log.history.len() >= HISTORY_MAX {
            self.log.history.pop_front();
            self.log.trimmed += 1;
        }
        self.log.history.push_back(Committed {
            snapshot,
            applied,
            waits,
            proposer,
        });
    }

    /// Tells every server that can hear it of what was committed.
    pub(crate) fn spread(&mut self) {
        let Some(leader) = self.log.leader else {
            return;
        };
        for server in 0..self.servers.len() {
            let ix = u8::try_from(server).unwrap_or(0);
            if self.servers[server].up && self.net.servers_reach(leader, ix) {
                let lag = if ix == leader {
                    self.log.rng.below(100 * MICRO)
                } else {
                    // A follower hears of a commit with the next append.
                    self.net.delay() + self.log.rng.below(3 * MILLI)
                };
                self.apply_later(ix, lag);
            }
        }
    }

    /// Makes a server apply everything that is committed now, `lag` later.
    pub(crate) fn apply_later(&mut self, ix: ServerIx, lag: Nanos) {
        let upto = self.log.committed();
        let now = self.now;
        let server = &mut self.servers[usize::from(ix)];
        let at = (now + lag + server.extra).max(server.apply_at);
        server.apply_at = at;
        let life = server.life;
        let event = ServerEvent::Apply { upto };
        self.queue.push(
            at,
            Event::Server {
                server: ix,
                life,
                event,
            },
        );
    }

    /// A server that is killed leads no more, even if nobody could take its place.
    pub(crate) fn depose(&mut self, server: ServerIx) {
        if self.log.leader == Some(server) {
            self.log.leader = None;
            self.log.since = None;
        }
    }

    /// Something about who reaches whom changed: a leader without a majority will be replaced, one
    /// that has it goes on.
    pub(crate) fn look_at_leader(&mut self) {
        let Some(leader) = self.log.leader else {
            return self.stand_for_election();
        };
        if !self.has_majority(leader) {
            self.log.since = None;
            return self.stand_for_election();
        }
        self.log.since.get_or_insert(self.now);
        let term = self.log.term;
        self.queue
            .push(self.now, Event::Log(LogEvent::Commit { term }));
        self.spread();
        for server in 0..self.servers.len() {
            let ix = u8::try_from(server).unwrap_or(0);
            let lag = self.net.delay() + 20 * MILLI;
            self.learn_later(ix, lag);
        }
    }

    fn stand_for_election(&mut self) {
        if self.log.electing {
            return;
        }
        self.log.electing = true;
        // Election timeouts are 400 to 800 ms, and now and then a vote is split.
        let mut wait = self.log.rng.between(400 * MILLI, 900 * MILLI);
        if self.log.rng.chance(200) {
            wait += self.log.rng.between(400 * MILLI, 900 * MILLI);
        }
        let term = self.log.term;
        self.queue
            .push(self.now + wait, Event::Log(LogEvent::Elect { term }));
    }

    pub(crate) fn elect(&mut self, term: u64) {
        self.log.electing = false;
        if term != self.log.term {
            return;
        }
        if let Some(leader) = self.log.leader
            && self.has_majority(leader)
        {
            return;
        }
        let able: Vec<ServerIx> = (0..self.servers.len())
            .filter_map(|ix| u8::try_from(ix).ok())
            .filter(|ix| self.has_majority(*ix))
            .collect();
        if able.is_empty() {
            return self.stand_for_election();
        }
        let chosen = able[self.log.rng.offset(able.len())];
        self.lead(chosen);
    }

    /// The leader gives up although nothing is wrong.
    pub(crate) fn step_down(&mut self) {
        let able: Vec<ServerIx> = (0..self.servers.len())
            .filter_map(|ix| u8::try_from(ix).ok())
            .filter(|ix| Some(*ix) != self.log.leader && self.has_majority(*ix))
            .collect();
        if self.log.leader.is_some() && !able.is_empty() {
            let chosen = able[self.log.rng.offset(able.len())];
            self.lead(chosen);
        }
    }

    fn lead(&mut self, chosen: ServerIx) {
        let old = self.log.leader;
        self.counts.elections += 1;
        self.log.term += 1;
        self.log.leader = Some(chosen);
        self.log.since = Some(self.now);
        let term = self.log.term;
        self.note(|| format!("s{chosen} leads in term {term}"));
        let lost = std::mem::take(&mut self.log.in_flight);
        let kept = self.log.rng.offset(lost.len() + 1);
        for (number, entry) in lost.into_iter().enumerate() {
            if let Some((change, attempt)) = entry.waits {
                // Who asked hears of it when the new leader is known.
                let at = self.now + 500 * MILLI + self.net.delay();
                let answer = Box::new(Answer::Unknown);
                let event = LogEvent::Answer {
                    change,
                    attempt,
                    answer,
                };
                self.queue.push(at, Event::Log(event));
            }
            if number < kept {
                let entry = InFlight {
                    waits: None,
                    ..entry
                };
                self.commit_entry(entry, None);
            }
        }
        // The new leader's blank entry.
        self.log.index += 1;
        self.spread();
        for server in 0..self.servers.len() {
            let ix = u8::try_from(server).unwrap_or(0);
            let lag = if ix == chosen { 0 } else { self.net.delay() };
            // One that was told to give up knows at once that it does not lead.
            let gave_up = Some(ix) == old && self.net.servers_reach(chosen, ix);
            self.learn_later(ix, if gave_up { 0 } else { lag });
        }
    }

    /// A server learns who leads, where it can hear that.
    pub(crate) fn learn_later(&mut self, ix: ServerIx, lag: Nanos) {
        let leader = self.log.leader;
        let hears = leader.is_some_and(|leader| self.net.servers_reach(leader, ix));
        if !hears || !self.servers[usize::from(ix)].up {
            return;
        }
        let (life, term) = (self.servers[usize::from(ix)].life, self.log.term);
        let event = ServerEvent::Learns { leader, term };
        self.queue.push(
            self.now + lag,
            Event::Server {
                server: ix,
                life,
                event,
            },
        );
    }

    /// For how long the cluster has had a leader with a majority.
    pub fn led_for(&self) -> Nanos {
        self.log
            .since
            .map_or(0, |since| self.now.saturating_sub(since))
    }

    /// The longest that an election takes.
    pub const ELECTION_MAX: Nanos = 4 * SECOND;
}
