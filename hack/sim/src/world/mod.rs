//! The world: virtual time, one queue of events, and everyone in it. One thread, one seed: equal
//! settings give equal runs, event by event.

mod bend;
mod bend_jobs;
mod client;
mod converge;
mod dispatch;
mod election;
mod faults;
mod figures;
pub(crate) mod keys;
pub mod locks;
mod log;
mod storm;
mod trace;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::{Applied, Command};
use protocol_model::AllocId;

use crate::counts::Counts;
use crate::event::{Event, LogEvent, ToNode, ToServer};
use crate::figures::Figures;
use crate::invariants::{self, Invariant, Observation};
use crate::mutant::Mutant;
use crate::net::{ConnId, IDLE, Net, Side, Stream};
use crate::node::SimNode;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::schedule::jobs::Kind;
use crate::schedule::{Schedule, Settings};
use crate::server::Server;
use crate::server::change::Changes;
use crate::server::reading::Reads;
use crate::time::{Nanos, SECOND};
use client::Clients;
use locks::LockClients;
pub use log::Log;
use storm::Cpus;
pub use trace::Trace;

/// How long the healed cluster may take to come to rest.
pub const LIVENESS_MAX: Nanos = 240 * SECOND;

/// What did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The invariant's name.
    pub invariant: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What was seen.
    pub what: String,
    /// When.
    pub at: Nanos,
    /// After how many events.
    pub step: u64,
}

/// Everyone and everything.
#[derive(Debug)]
pub struct World {
    pub now: Nanos,
    pub step: u64,
    pub(crate) queue: Queue,
    pub schedule: Schedule,
    pub(crate) state_check_every: u32,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) net: Net,
    pub(crate) log: Log,
    pub(crate) servers: Vec<Server>,
    /// Where processor time counts.
    pub(crate) cpus: Option<Cpus>,
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) changes: Changes,
    pub(crate) reads: Reads,
    /// How often somebody began to lead.
    pub(crate) reigns: u64,
    pub(crate) clients: Clients,
    pub(crate) locks: LockClients,
    /// The kind of everything that was ever placed.
    pub(crate) kinds: BTreeMap<AllocId, Kind>,
    /// What of it fails as soon as it runs.
    pub(crate) broken: BTreeSet<AllocId>,
    /// With a planted bug: the keys that allocations were moved to once.
    pub(crate) resigned: BTreeSet<u32>,
    pub(crate) rng: Rng,
    pub(crate) counts: Counts,
    pub figures: Figures,
    /// When an outage of all nodes ended of which not all are back yet.
    outage_over: Option<Nanos>,
    /// Since when nodes wait for a session where processor time counts.
    storm_since: Option<Nanos>,
    /// Everything is healed and nothing fails any more; since then.
    pub calm: bool,
    pub calm_since: Nanos,
    /// When something last began or ceased to be wrong.
    pub disturbed_at: Nanos,
    pub(crate) faults_on: BTreeSet<u32>,
    invariants: Vec<Box<dyn Invariant>>,
    pub failure: Option<Failure>,
    trace: Option<Trace>,
    rested: Option<Nanos>,
    steps_max: u64,
}

/// Streams of chance.
const STREAM_WORLD: u64 = 10;
const STREAM_NET: u64 = 11;
const STREAM_LOG: u64 = 12;

impl World {
    /// A cluster that is about to be switched on.
    pub fn new(settings: &Settings, trace: Option<Trace>) -> Self {
        let schedule = Schedule::of(settings);
        let seed = settings.seed;
        let (nodes, servers) = (schedule.nodes as usize, usize::from(schedule.servers));
        let mut rng = Rng::new(seed, STREAM_WORLD);
        let mut skew = || i64::try_from(rng.below(400_000_000)).unwrap_or(0) - 200_000_000;
        let mut world = Self {
            now: 0,
            step: 0,
            queue: Queue::default(),
            state_check_every: settings.state_check_every.max(1),
            mutant: settings.mutant,
            net: Net::new(nodes, servers, Rng::new(seed, STREAM_NET)),
            log: Log::new(Rng::new(seed, STREAM_LOG)),
            servers: (0..servers).map(|_| Server::new(nodes)).collect(),
            cpus: schedule.storm.map(|_| Cpus::new(servers)),
            nodes: (0..schedule.nodes)
                .map(|ix| SimNode::new(ix, skew()))
                .collect(),
            changes: Changes::default(),
            reads: Reads::default(),
            reigns: 0,
            clients: Clients::new(&schedule),
            locks: LockClients::new(settings),
            kinds: BTreeMap::new(),
            broken: BTreeSet::new(),
            resigned: BTreeSet::new(),
            rng,
            counts: Counts::default(),
            figures: Figures::default(),
            outage_over: None,
            storm_since: None,
            calm: false,
            calm_since: 0,
            disturbed_at: 0,
            faults_on: BTreeSet::new(),
            invariants: invariants::all(),
            failure: None,
            trace,
            rested: None,
            steps_max: settings.steps.unwrap_or(u64::MAX),
            schedule,
        };
        world.net.heartbeats_in_order = settings.mutant == Some(Mutant::HeartbeatsInOrder);
        world.switch_on();
        world
    }

    fn switch_on(&mut self) {
        for server in 0..self.schedule.servers {
            self.start_server(server);
        }
        for node in 0..self.schedule.nodes {
            self.boot(node);
        }
        for (number, fault) in self.schedule.faults.clone().iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            self.queue.push(fault.at, Event::FaultBegins(number));
        }
        for (number, op) in self.schedule.ops.clone().iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            self.queue.push(op.at, Event::Op(number));
        }
        self.start_lock_clients();
        self.queue.push(SECOND, Event::Second);
    }

    /// Runs until something does not hold, until the healed cluster has come to rest, or until it
    /// took too long.
    pub fn run(&mut self) {
        while self.go_on(u64::MAX) {}
    }

    /// Goes on for so many events. Answers whether there is more to come.
    pub fn go_on(&mut self, events: u64) -> bool {
        let until = self.step.saturating_add(events);
        while self.failure.is_none() && self.rested.is_none() && self.step < self.steps_max {
            if self.step >= until {
                return true;
            }
            let Some((at, event)) = self.queue.pop() else {
                return false;
            };
            self.now = at;
            self.step += 1;
            match self.holds_up(&event) {
                Some(server) => self.servers[usize::from(server)].held.push(event),
                None => self.take_up(event),
            }
        }
        false
    }

    /// Whether the healed cluster came to rest.
    pub fn rested(&self) -> bool {
        self.rested.is_some()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::NodeTimer { node, life } => self.on_node_timer(node, life),
            Event::Node { node, life, input } => self.on_node_input(node, life, input),
            Event::Host { node, boot, event } => self.on_host_event(node, boot, event),
            Event::ToServer {
                conn,
                stream,
                message,
            } => self.on_to_server(conn, stream, message),
            Event::ToNode {
                conn,
                message: ToNode::Busy,
            } => self.on_busy(conn),
            Event::ToNode { conn, message } => self.on_to_node(conn, message),
            Event::Idle { conn, since } => self.on_idle(conn, since),
            Event::Server {
                server,
                life,
                event,
            } => self.on_server_event(server, life, event),
            Event::Log(LogEvent::Commit { term }) => self.commit(term),
            Event::Log(LogEvent::Late { term, stamped }) => {
                if term == self.log.term {
                    self.append(stamped, None);
                }
            }
            Event::Log(LogEvent::Elect { term }) => self.elect(term),
            Event::Log(LogEvent::Try { change }) => self.try_change(change),
            Event::Log(LogEvent::Forwarded { change, leader }) => {
                self.on_forwarded(change, leader);
            }
            Event::Log(LogEvent::ReadTry { read }) => self.try_read(read),
            Event::Log(LogEvent::ReadLate { read, attempt }) => self.on_read_late(read, attempt),
            Event::Log(LogEvent::ReadAsked {
                read,
                attempt,
                leader,
            }) => self.on_read_asked(read, attempt, leader),
            Event::Log(LogEvent::ReadIndex {
                read,
                attempt,
                upto,
            }) => self.on_read_index(read, attempt, upto),
            Event::Log(LogEvent::Answer {
                change,
                attempt,
                answer,
            }) => self.on_answer(change, attempt, *answer),
            Event::FaultBegins(fault) => self.begin_fault(fault),
            Event::FaultEnds(fault) => self.end_fault(fault),
            Event::Op(op) => self.begin_op(op),
            Event::Lock(event) => self.on_lock_event(event),
            Event::Second => self.on_second(),
            // Only `take_up` has processors.
            Event::Worked { .. } => {}
        }
    }

    fn on_second(&mut self) {
        if !self.calm && self.now >= self.schedule.safety_until {
            self.become_calm();
        }
        self.measure_storm();
        self.observe(Observation::Second);
        if self.calm && self.now > self.calm_since + 5 * SECOND {
            match self.unrest() {
                None => {
                    self.observe(Observation::Rested);
                    self.rested = Some(self.now);
                }
                Some(what) if self.now > self.calm_since + LIVENESS_MAX => {
                    self.fail(
                        "liveness",
                        "reconnect.md, the promise: every node comes back, every job is as wanted",
                        format!("healed for {} s: {what}", LIVENESS_MAX / SECOND),
                    );
                }
                Some(what) => self.note(|| format!("not at rest: {what}")),
            }
        }
        self.queue.push(self.now + SECOND, Event::Second);
    }

    // --- messages ---

    pub(crate) fn send_to_server(&mut self, conn: ConnId, stream: Stream, message: ToServer) {
        let Some(server) = self.net.conn(conn).map(|it| it.server) else {
            return;
        };
        let extra = self.servers[usize::from(server)].extra;
        if let Some((at, event)) = self.net.to_server(conn, stream, message, extra, self.now) {
            self.queue.push(at, event);
        }
    }

    pub(crate) fn send_to_node(&mut self, conn: ConnId, stream: Stream, message: ToNode) {
        if let Some((at, event)) = self.net.to_node(conn, stream, message, self.now) {
            self.queue.push(at, event);
        }
    }

    /// A server that was started again does not know the connection, and says so.
    pub(crate) fn reset(&mut self, conn: ConnId) {
        self.net.leave(conn, Side::Server);
        self.send_to_node(conn, Stream::Session, ToNode::Ended);
    }

    /// The connection dies if nothing heals until then.
    pub(crate) fn idle_later(&mut self, conn: ConnId, since: Nanos) {
        self.queue.push(since + IDLE, Event::Idle { conn, since });
    }

    fn on_idle(&mut self, conn: ConnId, since: Nanos) {
        let Some(it) = self.net.conn(conn) else {
            return;
        };
        let (node, server) = (it.node, it.server);
        let alone = it.open != [true, true];
        let cut = !self.net.passes(node, server, Side::Node)
            || !self.net.passes(node, server, Side::Server);
        let still = self.nodes[node as usize]
            .unreachable_since
            .is_none_or(|at| at <= since);
        if alone || (cut && still) {
            let server_keeps = it.open[Side::Server as usize];
            self.lose_link(conn);
            if server_keeps {
                self.forget_conn(server, conn);
            }
            self.net.leave(conn, Side::Node);
            self.net.leave(conn, Side::Server);
        }
    }

    // --- what is watched ---

    pub(crate) fn observe(&mut self, seen: Observation<'_>) {
        if self.failure.is_some() {
            return;
        }
        let mut all = std::mem::take(&mut self.invariants);
        for invariant in &mut all {
            if let Err(what) = invariant.on(&seen, self) {
                self.fail(invariant.name(), invariant.source(), what);
                break;
            }
        }
        self.invariants = all;
    }

    pub(crate) fn fail(&mut self, invariant: &'static str, source: &'static str, what: String) {
        if self.failure.is_none() {
            self.failure = Some(Failure {
                invariant,
                source,
                what,
                at: self.now,
                step: self.step,
            });
        }
    }

    /// Something that this world does not know how to do: a run that hides it would prove nothing.
    pub(crate) fn unmodelled(&mut self, what: &str) {
        let what = format!("the simulator has no model of {what}");
        self.fail("modelled", "hack/sim", what);
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.line(self.now, self.step, &line());
        }
    }

    fn note_command(&mut self, index: u64, command: &Command, applied: &Applied) {
        if let Some(trace) = &mut self.trace {
            trace.command(self.now, self.step, index, command, applied);
        }
    }

    fn count_command(&mut self, command: &Command) {
        self.counts.commands += 1;
        match command {
            Command::HeartbeatMissed { nodes } => {
                self.counts.expiries += 1;
                self.counts.expired += nodes.len() as u64;
            }
            Command::NodeSynced(_) => self.counts.syncs += 1,
            Command::AllocUpdates { .. } => self.counts.update_entries += 1,
            Command::PlanApply(_) => self.counts.plans += 1,
            _ => {}
        }
    }

    // --- what invariants may look at ---
}
