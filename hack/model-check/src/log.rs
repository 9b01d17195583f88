//! The replicated log: what was asked of it and may be committed at any time, what is committed,
//! and the one true state. An entry whose proposer stopped waiting may be committed later all the
//! same, or never.

use std::collections::VecDeque;
use std::rc::Rc;

use controlplane_state::command::NodeBatch;
use controlplane_state::news::CompleteReport;
use controlplane_state::{Applied, Command, Outcome, Signal, Snapshot, Stamped, State};
use protocol_model::UnixNanos;

use crate::digest::Digest;
use crate::net::{ConnId, ServerIx};
use crate::world::World;

/// The log.
#[derive(Clone, Debug)]
pub struct Log {
    pub state: State,
    pub digest: Digest,
    index: u64,
    /// What leaders' clocks say.
    pub clock: UnixNanos,
    /// What was committed; the first has the number `trimmed`.
    entries: VecDeque<Rc<Entry>>,
    trimmed: u64,
    /// What may be committed.
    pub pending: Vec<Proposal>,
}

/// A committed entry, as servers apply it.
#[derive(Debug)]
pub struct Entry {
    pub snapshot: Snapshot,
    pub signals: Vec<Signal>,
    pub digest: Digest,
}

/// What was asked of the log.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub command: Rc<Command>,
    pub then: Then,
    pub digest: Digest,
}

/// Who waits for the answer.
#[derive(Clone, Debug)]
pub enum Then {
    /// Nobody, or nobody any more.
    Nothing,
    Greet(ServerIx, ConnId),
    Synced {
        server: ServerIx,
        conn: ConnId,
        report: Rc<CompleteReport>,
    },
    Facts(ServerIx, ConnId),
    Updates {
        server: ServerIx,
        conn: ConnId,
        batch: Rc<NodeBatch>,
        tries: u32,
    },
}

/// The answer.
#[derive(Clone, Debug)]
pub enum Answer {
    Done(Applied),
    /// It may have happened.
    Unknown,
}

impl Then {
    /// A server that waited for it is no more.
    pub fn forget(&mut self, gone: ServerIx) {
        let waits = match self {
            Self::Nothing => None,
            Self::Greet(server, _)
            | Self::Facts(server, _)
            | Self::Synced { server, .. }
            | Self::Updates { server, .. } => Some(*server),
        };
        if waits == Some(gone) {
            *self = Self::Nothing;
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            state: State::new(),
            digest: Digest::default(),
            index: 0,
            clock: UnixNanos(1_700_000_000_000_000_000),
            entries: VecDeque::new(),
            trimmed: 0,
            pending: Vec::new(),
        }
    }
}

impl Log {
    /// How many entries are committed.
    pub fn committed(&self) -> u64 {
        self.trimmed + self.entries.len() as u64
    }

    pub fn entry(&self, number: u64) -> Option<&Rc<Entry>> {
        let offset = usize::try_from(number.checked_sub(self.trimmed)?).ok()?;
        self.entries.get(offset)
    }

    /// Forgets what every server has applied.
    pub fn trim(&mut self, applied: u64) {
        while self.trimmed < applied && self.entries.pop_front().is_some() {
            self.trimmed += 1;
        }
    }
}

impl World {
    /// Asks for a change; it may be committed from now on.
    pub fn propose(&mut self, command: Command, then: Then, digest: Digest) {
        self.log.pending.push(Proposal {
            command: Rc::new(command),
            then,
            digest,
        });
    }

    /// A proposal is committed, and its proposer told.
    pub fn commit(&mut self, number: usize) {
        let Proposal {
            command,
            then,
            digest,
        } = self.log.pending.remove(number);
        let applied = self.append(Command::clone(&command), digest);
        self.answer(then, Answer::Done(applied));
    }

    /// The proposer hears that nobody knows what became of it.
    pub fn leave_unanswered(&mut self, number: usize) {
        let proposal = &mut self.log.pending[number];
        let then = std::mem::replace(&mut proposal.then, Then::Nothing);
        self.answer(then, Answer::Unknown);
    }

    /// The next entry of the log.
    pub fn append(&mut self, command: Command, digest: Digest) -> Applied {
        let before = self.log.state.snapshot();
        let asked = command.clone();
        let bent = self.bend(command);
        self.log.digest.note(digest);
        self.log.index += 1;
        // Every entry is a moment later than the one before.
        self.log.clock.0 += 1_000_000;
        let seed = self.log.digest.seed();
        let now = self.log.clock;
        let stamped = Stamped {
            now,
            seed,
            command: bent,
        };
        let applied = self.log.state.apply(self.log.index, stamped);
        let after = self.log.state.snapshot();
        self.log.entries.push_back(Rc::new(Entry {
            snapshot: after.clone(),
            signals: applied.signals.clone(),
            digest: self.log.digest,
        }));
        self.watch_commit(&before, &after, &asked, &applied);
        self.after_bend(&before, &asked);
        applied
    }

    fn answer(&mut self, then: Then, answer: Answer) {
        match then {
            Then::Nothing => {}
            Then::Greet(server, conn) => self.on_greeted(server, conn, &answer),
            Then::Synced {
                server,
                conn,
                report,
            } => self.on_synced(server, conn, report, &answer),
            Then::Facts(server, conn) => self.on_facts_kept(server, conn, &answer),
            Then::Updates {
                server,
                conn,
                batch,
                tries,
            } => self.on_updates(server, conn, batch, tries, answer),
        }
    }
}

impl Answer {
    /// What the state said, where it said something.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Done(applied) => Some(&applied.outcome),
            Self::Unknown => None,
        }
    }

    /// A word for the proposer's history.
    pub fn digest(&self, log: Digest) -> Digest {
        match self {
            Self::Done(_) => log.with("done"),
            Self::Unknown => Digest::default().with("unknown"),
        }
    }
}
