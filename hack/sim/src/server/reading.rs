//! A consistent read, as the server's `cluster/mod.rs` makes it: the leader names the newest entry
//! that is on a majority, and the reading server waits until it has applied that one.
//!
//! ```text
//!   greet --> ask the leader --majority--> upto --> back --> applied here --> answer
//!               ^   | not the leader, no majority, lost on the way
//!               +---+ again, until patience ends
//! ```

use std::collections::BTreeMap;

use controlplane_state::command::NodeHello;

use crate::event::{Event, LogEvent, ServerEvent, ServerIx};
use crate::net::ConnId;
use crate::time::{MILLI, Nanos, SECOND};
use crate::world::World;

/// How long a read waits for a leader (as the server).
const PATIENCE: Nanos = 10 * SECOND;
/// How long one attempt may take.
const ATTEMPT_MAX: Nanos = SECOND;
/// The pause before it is tried again (as the server).
const RETRY_PAUSE: Nanos = 50 * MILLI;

/// A read under way: a knock that is answered without an entry.
#[derive(Debug)]
struct Read {
    server: ServerIx,
    life: u32,
    conn: ConnId,
    knock: Box<NodeHello>,
    deadline: Nanos,
    attempt: u32,
    /// The number of entries that have to be applied here, once it is known.
    upto: Option<u64>,
}

/// Reads under way, of all servers.
#[derive(Debug, Default)]
pub struct Reads {
    all: BTreeMap<u64, Read>,
    made: u64,
}

impl Reads {
    /// Who reads.
    pub(super) fn server_of(&self, read: u64) -> Option<ServerIx> {
        self.all.get(&read).map(|read| read.server)
    }
}

impl World {
    /// Looks at a knock again once everything is applied here that is on a majority now.
    pub(super) fn read(&mut self, ix: ServerIx, conn: ConnId, knock: Box<NodeHello>) {
        let life = self.servers[usize::from(ix)].life;
        self.reads.made += 1;
        let number = self.reads.made;
        let read = Read {
            server: ix,
            life,
            conn,
            knock,
            deadline: self.now + PATIENCE,
            attempt: 0,
            upto: None,
        };
        self.reads.all.insert(number, read);
        self.try_read(number);
    }

    pub(crate) fn try_read(&mut self, number: u64) {
        let Some(read) = self.reads.all.get_mut(&number) else {
            return;
        };
        let server = &self.servers[usize::from(read.server)];
        if !server.up || server.life != read.life {
            self.reads.all.remove(&number);
            return;
        }
        if self.now >= read.deadline {
            let (ix, conn) = (read.server, read.conn);
            self.reads.all.remove(&number);
            return self.read_failed(ix, conn);
        }
        read.attempt += 1;
        let (ix, attempt) = (read.server, read.attempt);
        let again = LogEvent::ReadTry { read: number };
        let Some(leader) = server.believes else {
            self.queue.push(self.now + RETRY_PAUSE, Event::Log(again));
            return;
        };
        // It may never arrive, and its answer may not either.
        self.queue.push(
            self.now + ATTEMPT_MAX,
            Event::Log(LogEvent::ReadLate {
                read: number,
                attempt,
            }),
        );
        if self.net.servers_reach(ix, leader) {
            let way = if ix == leader {
                0
            } else {
                self.net.server_delay()
            };
            let delay = way + self.servers[usize::from(leader)].extra;
            let event = LogEvent::ReadAsked {
                read: number,
                attempt,
                leader,
            };
            self.queue.push(self.now + delay, Event::Log(event));
        }
    }

    pub(crate) fn on_read_late(&mut self, number: u64, attempt: u32) {
        let late = |read: &Read| read.attempt == attempt && read.upto.is_none();
        if self.reads.all.get(&number).is_some_and(late) {
            self.try_read(number);
        }
    }

    /// The leader is asked: it answers only if a majority tells it that it still leads.
    pub(crate) fn on_read_asked(&mut self, number: u64, attempt: u32, leader: ServerIx) {
        let Some(read) = self.reads.all.get(&number) else {
            return;
        };
        let asked = read.server;
        let leads = self.log.leader == Some(leader) && self.has_majority(leader);
        if !leads || !self.net.servers_reach(leader, asked) {
            return;
        }
        // A round to the majority and the way back.
        let mut delay = self.net.server_delay() + self.net.server_delay();
        if asked != leader {
            delay += self.net.server_delay() + self.servers[usize::from(asked)].extra;
        }
        let upto = self.log.committed();
        let event = LogEvent::ReadIndex {
            read: number,
            attempt,
            upto,
        };
        self.queue.push(self.now + delay, Event::Log(event));
    }

    pub(crate) fn on_read_index(&mut self, number: u64, attempt: u32, upto: u64) {
        let Some(read) = self.reads.all.get_mut(&number) else {
            return;
        };
        if read.attempt != attempt {
            return;
        }
        read.upto = Some(upto);
        let (ix, deadline) = (read.server, read.deadline);
        let server = &mut self.servers[usize::from(ix)];
        if server.applied >= upto {
            return self.finish_read(number);
        }
        server.reads.insert((upto, number));
        let wait = deadline.saturating_sub(self.now);
        self.server_event(ix, wait, ServerEvent::ReadOver { read: number });
    }

    /// Something was applied here: reads that waited for it are answered.
    pub(super) fn wake_reads(&mut self, ix: ServerIx) {
        loop {
            let server = &mut self.servers[usize::from(ix)];
            let Some((upto, number)) = server.reads.first().copied() else {
                return;
            };
            if upto > server.applied {
                return;
            }
            server.reads.pop_first();
            self.finish_read(number);
        }
    }

    pub(super) fn on_read_over(&mut self, ix: ServerIx, number: u64) {
        let Some(read) = self.reads.all.remove(&number) else {
            return;
        };
        if let Some(upto) = read.upto {
            self.servers[usize::from(ix)].reads.remove(&(upto, number));
        }
        self.read_failed(ix, read.conn);
    }

    fn finish_read(&mut self, number: u64) {
        let Some(read) = self.reads.all.remove(&number) else {
            return;
        };
        let server = &self.servers[usize::from(read.server)];
        if server.up && server.life == read.life {
            self.greet_after_read(read.server, read.conn, read.knock);
        }
    }
}
