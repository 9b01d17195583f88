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
use std::sync::Arc;

use controlplane_state::{Applied, Command, Snapshot, Stamped, State};

use super::World;
use crate::event::{Event, LogEvent, ServerEvent, ServerIx};
use crate::invariants::Observation;
use crate::rng::Rng;
use crate::time::{MICRO, MILLI, Nanos};

/// Entries that followers can still read; one further behind takes a snapshot.
const HISTORY_MAX: usize = 2048;

/// Entries that every server has applied and that are kept: a server that is started again goes
/// back some of them.
const BACK_MAX: u64 = 16;

/// The log and the one true state.
#[derive(Debug)]
pub struct Log {
    pub state: State,
    /// What it looks like after the newest entry.
    pub(crate) newest: Snapshot,
    pub term: u64,
    /// Who leads, whoever else believes it.
    pub leader: Option<ServerIx>,
    /// The newest log index, entries without a command included.
    pub index: u64,
    pub in_flight: VecDeque<InFlight>,
    /// What was committed, oldest first; the first has the number `trimmed`.
    history: VecDeque<Arc<Committed>>,
    trimmed: u64,
    pub(super) electing: bool,
    /// What disks take longer for every entry.
    pub extra: Nanos,
    /// Since when it leads with a majority.
    pub(super) since: Option<Nanos>,
    /// How long the present leader leaves nodes to come back, beyond an election's.
    pub(super) to_return: Nanos,
    /// How long it looks at no window and no rollout.
    pub(super) grace: Nanos,
    pub(super) rng: Rng,
}

/// An entry that is not on a majority yet.
#[derive(Debug)]
pub struct InFlight {
    pub stamped: Arc<Stamped>,
    /// Who waits for it: the change and its attempt.
    pub waits: Option<(u64, u32)>,
    pub ready_at: Nanos,
}

/// An entry that is.
#[derive(Debug)]
pub struct Committed {
    pub snapshot: Snapshot,
    pub applied: Applied,
    pub waits: Option<(u64, u32)>,
    /// Who proposed it, in which of its lives, and answers.
    pub proposer: Option<(ServerIx, u32)>,
}

impl Log {
    pub fn new(rng: Rng) -> Self {
        Self {
            state: State::new(),
            newest: State::new().snapshot(),
            term: 0,
            leader: None,
            index: 0,
            in_flight: VecDeque::new(),
            history: VecDeque::new(),
            trimmed: 0,
            electing: false,
            extra: 0,
            since: None,
            to_return: 0,
            grace: 0,
            rng,
        }
    }

    /// How many entries were committed.
    pub fn committed(&self) -> u64 {
        self.trimmed + self.history.len() as u64
    }

    /// A committed entry by its number, while it is kept.
    pub fn entry(&self, number: u64) -> Option<&Arc<Committed>> {
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
            self.servers[*other].runs() && self.net.servers_reach(server, ix)
        });
        self.servers[usize::from(server)].runs() && reached.count() * 2 > of
    }

    /// Puts an entry into the log, where `server` leads.
    pub(crate) fn append(&mut self, stamped: Arc<Stamped>, waits: Option<(u64, u32)>) {
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

    pub(super) fn commit_entry(&mut self, entry: InFlight, proposer: Option<ServerIx>) {
        let InFlight { stamped, waits, .. } = entry;
        let stamped = self.bend(stamped);
        for (number, part) in self.split(stamped).into_iter().enumerate() {
            let waits = waits.filter(|_| number == 0);
            let before = self.before_part(&part);
            let (now, seed) = (part.now, part.seed);
            self.apply(&part, waits, proposer);
            self.after_part(before, now, seed);
        }
    }

    /// Applies one command to the one true state.
    pub(crate) fn apply(
        &mut self,
        stamped: &Stamped,
        waits: Option<(u64, u32)>,
        proposer: Option<ServerIx>,
    ) {
        self.log.index += 1;
        let index = self.log.index;
        let command: &Command = &stamped.command;
        self.count_command(command);
        let applied = self.log.state.apply(index, stamped.clone());
        let snapshot = self.log.state.snapshot();
        let before = std::mem::replace(&mut self.log.newest, snapshot.clone());
        self.note_command(index, command, &applied);
        self.clients.on_applied(command, &applied);
        if let Command::PlanApply(plan) = command {
            self.note_kinds(&plan.placed);
        }
        self.measure(command, &applied);
        self.observe(Observation::Applied {
            before: &before,
            after: &snapshot,
            command,
            applied: &applied,
        });
        self.trim_history();
        self.log.history.push_back(Arc::new(Committed {
            snapshot,
            applied,
            waits,
            proposer: proposer.map(|ix| (ix, self.servers[usize::from(ix)].life)),
        }));
    }

    /// A server that is started again has applied what its newest snapshot of the state says, and
    /// applies anew what came after it.
    pub(crate) fn go_back(&mut self, ix: ServerIx) {
        let server = &self.servers[usize::from(ix)];
        let by = self.log.rng.below(BACK_MAX + 1);
        let Some(last) = server.applied.saturating_sub(by).checked_sub(1) else {
            return;
        };
        if let Some(entry) = self.log.entry(last) {
            let snapshot = entry.snapshot.clone();
            let server = &mut self.servers[usize::from(ix)];
            server.applied = last + 1;
            server.snapshot = snapshot;
        }
    }

    /// Forgets entries that every server has applied long since: old snapshots hold on to memory,
    /// and cost time when everything that they share is copied.
    fn trim_history(&mut self) {
        let applied = self.servers.iter().map(|server| server.applied).min();
        let applied = applied.unwrap_or(0).saturating_sub(BACK_MAX);
        while self.log.trimmed < applied || self.log.history.len() >= HISTORY_MAX {
            if self.log.history.pop_front().is_none() {
                return;
            }
            self.log.trimmed += 1;
        }
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
                    self.net.server_delay() + self.log.rng.below(3 * MILLI)
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
        let at = (now + lag + server.lag + server.extra).max(server.apply_at);
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
}
