//! A server: what it has applied, whom it takes for the leader, the nodes that talk to it. Its
//! decisions are the product's pure parts; what stands between them in the server's shell is
//! imitated here, file by file.
//!
//! | here | in the server |
//! |---|---|
//! | `greeting` | `gateway/hello.rs` |
//! | `session`, `sync` | `gateway/session.rs`, `gateway/sync.rs` |
//! | `updates` | `gateway/updates.rs`, `gateway/coalescer` |
//! | `watch` | `gateway/watch.rs` |
//! | `held` | `gateway/held.rs` |
//! | `heard` | `gateway/liveness.rs` |
//! | `entrance` | `gateway/admission.rs`, `gateway/lateness.rs` |
//! | `leading`, `plans` | `leading/*` |
//! | `keys` | `keyring/rotation/*` |
//! | `change`, `reading` | `cluster/change.rs`, `cluster/mod.rs` |
//! | `locks` | `cluster/renew.rs` |

pub mod change;
pub mod entrance;
mod greeting;
pub mod heard;
mod held;
mod keys;
pub mod leading;
mod locks;
pub mod plans;
pub mod reading;
mod session;
pub mod sync;
mod updates;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controlplane_leader::tenure::Tenure;
use controlplane_state::{Signal, Snapshot};

use crate::cpu::CpuIx;
use crate::event::{Event, LogEvent, NodeIx, ServerEvent, ServerIx, Waits};
use crate::net::{ConnId, Side};
use crate::node_ids::node_ix;
use crate::time::{Nanos, SECOND};
use crate::world::World;
use entrance::Entrance;
use heard::HeardLog;
use held::Sessions;
use leading::Leading;
use session::ServerConn;
use updates::Coalescer;

/// One server.
#[derive(Debug)]
pub struct Server {
    pub up: bool,
    /// Its process stands still: faults that are on, and what happens to it once it goes on.
    pub(crate) stalls: u32,
    pub(crate) held: Vec<Event>,
    /// How often it was started.
    pub life: u32,
    /// What it takes longer for everything.
    pub extra: Nanos,
    /// How much later than it could it applies what is committed.
    pub lag: Nanos,
    /// How wrong its wall clock is.
    pub skew: i64,
    /// How many entries it has applied, and what it sees.
    pub applied: u64,
    pub snapshot: Snapshot,
    pub apply_at: Nanos,
    /// Who leads, as far as it knows, and in which term.
    pub believes: Option<ServerIx>,
    pub believed_term: u64,
    leading: Option<Leading>,
    /// When it led with a majority last, where it does not any more.
    pub(crate) quorum_at: Option<Nanos>,
    /// For how long somebody has led, as far as it knows.
    pub(crate) tenure: Tenure,
    sessions: Sessions,
    conns: BTreeMap<ConnId, ServerConn>,
    conns_of: BTreeMap<NodeIx, Vec<ConnId>>,
    /// Sessions that wait until this index is applied here.
    waits: BTreeSet<(u64, ConnId, Waits)>,
    /// Reads that wait until so many entries are applied here.
    reads: BTreeSet<(u64, u64)>,
    heard: HeardLog,
    coalescer: Coalescer,
    entrance: Entrance,
}

impl Server {
    pub fn new(nodes: usize) -> Self {
        Self {
            up: false,
            stalls: 0,
            held: Vec::new(),
            life: 0,
            extra: 0,
            lag: 0,
            skew: 0,
            applied: 0,
            snapshot: Snapshot::default(),
            apply_at: 0,
            believes: None,
            believed_term: 0,
            leading: None,
            quorum_at: None,
            tenure: Tenure::default(),
            sessions: Sessions::default(),
            conns: BTreeMap::new(),
            conns_of: BTreeMap::new(),
            waits: BTreeSet::new(),
            reads: BTreeSet::new(),
            heard: HeardLog::new(nodes, 0),
            coalescer: Coalescer::default(),
            entrance: Entrance::default(),
        }
    }

    /// Whether there is a process, and it does something.
    pub fn runs(&self) -> bool {
        self.up && self.stalls == 0
    }

    fn is_leader(&self, me: ServerIx) -> bool {
        self.believes == Some(me)
    }

    /// How many nodes are in a session here.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }
}

impl World {
    /// A server starts: its log is where it was, and is applied from a while ago on. Everything
    /// else begins anew.
    pub(crate) fn start_server(&mut self, ix: ServerIx) {
        let (nodes, now) = (self.nodes.len(), self.now);
        let server = &mut self.servers[usize::from(ix)];
        if server.up {
            return;
        }
        server.up = true;
        server.life += 1;
        server.tenure = Tenure::default();
        server.believes = None;
        server.leading = None;
        server.quorum_at = None;
        server.sessions = Sessions::default();
        server.conns = BTreeMap::new();
        server.conns_of = BTreeMap::new();
        server.waits = BTreeSet::new();
        server.reads = BTreeSet::new();
        server.heard = HeardLog::new(nodes, now);
        server.coalescer = Coalescer::default();
        let life = server.life;
        self.go_back(ix);
        self.note(|| format!("s{ix} starts"));
        // Nodes that still talk to its former life are told that there is none.
        for conn in self
            .net
            .conns_where(|it| it.server == ix && it.server_life != life)
        {
            self.reset(conn);
        }
        let first = self.rng.below(200_000_000);
        let event = ServerEvent::ReportTick;
        self.server_event(ix, first, event);
        self.open_entrance(ix);
        self.look_at_leader();
    }

    /// kill -9 of a server, or its host.
    pub(crate) fn kill_server(&mut self, ix: ServerIx) {
        let server = &mut self.servers[usize::from(ix)];
        if !server.up {
            return;
        }
        server.up = false;
        server.leading = None;
        server.stalls = 0;
        self.let_go(ix);
        if let Some(cpus) = &mut self.cpus {
            cpus.servers[usize::from(ix)].forget();
        }
        self.note(|| format!("s{ix} is killed"));
        let (now, life) = (self.now, self.servers[usize::from(ix)].life);
        for conn in self
            .net
            .conns_where(|it| it.server == ix && it.server_life == life)
        {
            self.net.leave(conn, Side::Server);
            self.idle_later(conn, now);
        }
        self.depose(ix);
        self.look_at_leader();
    }

    /// A server's process stands still from now on: it was suspended, or its host is. What comes
    /// for it waits, and its own timers are late.
    pub(crate) fn stall_server(&mut self, ix: ServerIx) {
        let server = &mut self.servers[usize::from(ix)];
        if server.up {
            server.stalls += 1;
            self.look_at_leader();
        }
    }

    /// It goes on, unless another fault keeps it, or it was killed meanwhile.
    pub(crate) fn unstall_server(&mut self, ix: ServerIx) {
        let server = &mut self.servers[usize::from(ix)];
        server.stalls = server.stalls.saturating_sub(1);
        if server.stalls == 0 {
            self.let_go(ix);
            self.look_at_leader();
        }
    }

    /// What was held up happens, in the order in which it came.
    fn let_go(&mut self, ix: ServerIx) {
        for event in std::mem::take(&mut self.servers[usize::from(ix)].held) {
            self.queue.push(self.now, event);
        }
    }

    /// The server that stands still and that an event is for.
    pub(crate) fn holds_up(&self, event: &Event) -> Option<ServerIx> {
        if self.servers.iter().all(|server| server.stalls == 0) {
            return None;
        }
        let server = match event {
            Event::ToServer { conn, .. } => self.net.conn(*conn)?.server,
            Event::Server { server, .. } => *server,
            Event::Log(event) => self.server_of(event)?,
            Event::Lock(event) => event.server()?,
            Event::Worked {
                cpu: CpuIx::Server(server),
                ..
            } => *server,
            Event::NodeTimer { .. }
            | Event::Node { .. }
            | Event::Host { .. }
            | Event::ToNode { .. }
            | Event::Idle { .. }
            | Event::FaultBegins(_)
            | Event::FaultEnds(_)
            | Event::Op(_)
            | Event::Worked {
                cpu: CpuIx::Nodes, ..
            }
            | Event::Second => return None,
        };
        (self.servers[usize::from(server)].stalls > 0).then_some(server)
    }

    /// Who has to do something for an event of the log.
    fn server_of(&self, event: &LogEvent) -> Option<ServerIx> {
        match event {
            LogEvent::Forwarded { leader, .. } | LogEvent::ReadAsked { leader, .. } => {
                Some(*leader)
            }
            LogEvent::Try { change } | LogEvent::Answer { change, .. } => {
                self.changes.server_of(*change)
            }
            LogEvent::ReadTry { read }
            | LogEvent::ReadLate { read, .. }
            | LogEvent::ReadIndex { read, .. } => self.reads.server_of(*read),
            LogEvent::Commit { .. } | LogEvent::Late { .. } | LogEvent::Elect { .. } => None,
        }
    }

    /// Makes something happen at a server, if it lives then.
    pub(crate) fn server_event(&mut self, server: ServerIx, wait: Nanos, event: ServerEvent) {
        let life = self.servers[usize::from(server)].life;
        self.queue.push(
            self.now + wait,
            Event::Server {
                server,
                life,
                event,
            },
        );
    }

    pub(crate) fn on_server_event(&mut self, ix: ServerIx, life: u32, event: ServerEvent) {
        let server = &self.servers[usize::from(ix)];
        if !server.up || server.life != life {
            return;
        }
        match event {
            ServerEvent::Apply { upto } => self.apply_here(ix, upto),
            ServerEvent::Install => self.install(ix),
            ServerEvent::ReportTick => self.report_heard(ix),
            ServerEvent::Report {
                from,
                number,
                reading,
                heard,
            } => self.on_report(ix, from, number, reading, &heard),
            ServerEvent::Confirmed {
                number,
                not_watched,
                led_for,
            } => {
                let now = Duration::from_nanos(self.now);
                self.servers[usize::from(ix)].tenure.told(led_for, now);
                self.on_report_answered(ix, number, Some(&not_watched));
            }
            ServerEvent::NotConfirmed { number } => self.on_report_answered(ix, number, None),
            ServerEvent::Learns { leader, term } => self.learns(ix, leader, term),
            ServerEvent::LeaderTimer { reign } => self.on_leader_timer(ix, reign),
            ServerEvent::KeysDue { reign } => self.on_keys_due(ix, reign),
            ServerEvent::NextPiece(plan) => self.propose_piece(ix, plan),
            ServerEvent::Settle(plan) => self.settle_plan(ix, plan),
            ServerEvent::Decided(decided) => self.on_decided(ix, *decided),
            ServerEvent::WaitOver { conn, what } => self.on_wait_over(ix, conn, what),
            ServerEvent::ReadOver { read } => self.on_read_over(ix, read),
            ServerEvent::SyncOverdue { conn, epoch } => self.on_sync_overdue(ix, conn, epoch),
            ServerEvent::Arrival { guest, wish } => self.on_arrival(ix, guest, wish),
            ServerEvent::DoorDue => self.on_door_due(ix),
            ServerEvent::Handshake(guest) => self.on_handshake(ix, guest),
            ServerEvent::PlaceOver { conn } => self.free_place(ix, conn, true),
            ServerEvent::Probe => self.on_probe(ix),
        }
    }

    fn learns(&mut self, ix: ServerIx, leader: Option<ServerIx>, term: u64) {
        let server = &mut self.servers[usize::from(ix)];
        if term < server.believed_term {
            return;
        }
        let same = server.believes == leader && server.believed_term == term;
        server.believed_term = term;
        server.believes = leader;
        if same {
            return;
        }
        server.leading = None;
        if let Some(leader) = leader {
            self.leader_replaced(ix, leader);
        }
        if leader == Some(ix) {
            self.take_over(ix, term);
        }
        let lag = self.net.server_delay();
        self.apply_later(ix, lag);
    }

    /// Applies entries one by one: everyone who follows the log here is told.
    fn apply_here(&mut self, ix: ServerIx, upto: u64) {
        loop {
            let server = &self.servers[usize::from(ix)];
            if !server.up || server.applied >= upto {
                return;
            }
            let Some(entry) = self.log.entry(server.applied) else {
                // Too far behind: the leader sends a snapshot.
                let wait = 50_000_000 + self.net.server_delay();
                return self.server_event(ix, wait, ServerEvent::Install);
            };
            let entry = Arc::clone(entry);
            let server = &mut self.servers[usize::from(ix)];
            server.applied += 1;
            server.snapshot = entry.snapshot.clone();
            let life = server.life;
            let index = entry.applied.index;
            self.lead_on_applied(ix, index, &entry.applied.signals);
            if let Some(waits) = entry.waits
                && entry.proposer == Some((ix, life))
            {
                self.answer_from(ix, waits, index, &entry.applied.outcome);
            }
            self.tell_nodes(ix, &entry.applied.signals);
            self.wake_waiting(ix, index);
            self.wake_reads(ix);
        }
    }

    fn install(&mut self, ix: ServerIx) {
        let hears = self
            .log
            .leader
            .is_some_and(|leader| self.net.servers_reach(leader, ix));
        let (committed, snapshot) = (self.log.committed(), self.log.state.snapshot());
        if !hears {
            return;
        }
        let server = &mut self.servers[usize::from(ix)];
        server.applied = committed;
        server.snapshot = snapshot;
        let index = server.snapshot.index();
        let nodes: Vec<NodeIx> = server.conns_of.keys().copied().collect();
        for node in nodes {
            self.on_node_news(ix, node);
        }
        self.wake_waiting(ix, index);
        self.wake_reads(ix);
        if self.servers[usize::from(ix)].leading.is_some() {
            let term = self.servers[usize::from(ix)].believed_term;
            self.take_over(ix, term);
        }
    }

    /// As the server's hub does it.
    fn tell_nodes(&mut self, ix: ServerIx, signals: &[Signal]) {
        for signal in signals {
            if let Some(node) = signal.node() {
                self.on_node_news(ix, node_ix(node));
            }
            if *signal == Signal::IncarnationChanged {
                let conns = &self.servers[usize::from(ix)].conns_of;
                for node in conns.keys().copied().collect::<Vec<_>>() {
                    self.on_node_news(ix, node);
                }
            }
        }
    }
}

/// How long a node may owe its complete report (as the server).
const SYNC_MAX: Nanos = 30 * SECOND;
/// How long a server behind a node waits before it sends the node elsewhere (as the server).
const CATCH_UP_MAX: Nanos = 2 * SECOND;
