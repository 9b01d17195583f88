//! Everything that can happen next. Each event names the life of whom it is for: what is late for a
//! daemon, a host or a server that ended meanwhile finds nobody.

use controlplane_leader::Reading;
use controlplane_leader::broker::Delivery;
use controlplane_scheduler::{Decision, Lane};
use controlplane_state::{Outcome, Refusal, SessionEpoch, Stamped};
use noded_core::event::{
    BatchAck, LeasesAnswer, RefusedReason, RunEvent, WatchDelta, WatchMap, Welcome,
};
use noded_core::key::Attempt;
use noded_core::{Effect, Event as CoreEvent, RunKey};
use protocol_model::{AllocId, Node};
use protocol_transport::door::Wish;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cpu::CpuIx;
use crate::net::{ConnId, Stream};
use crate::server::entrance::Guest;
use crate::server::heard::Heard;
use crate::server::leading::Reign;
use crate::server::plans::PlanInHand;
use crate::time::Nanos;
use crate::world::locks::LockRequest;

/// A node, by its offset.
pub type NodeIx = u32;
/// A server, by its offset.
pub type ServerIx = u8;

/// Something that happens.
#[derive(Debug)]
pub enum Event {
    /// A node's core may have something to do.
    NodeTimer { node: NodeIx, life: u32 },
    /// A node's daemon hears something from its own host.
    Node {
        node: NodeIx,
        life: u32,
        input: NodeInput,
    },
    /// Something happens on a host, whether its daemon lives or not.
    Host {
        node: NodeIx,
        boot: u32,
        event: HostEvent,
    },
    /// A message arrives at a server.
    ToServer {
        conn: ConnId,
        stream: Stream,
        message: ToServer,
    },
    /// A message arrives at a node.
    ToNode { conn: ConnId, message: ToNode },
    /// A connection may have been silent for too long.
    Idle { conn: ConnId, since: Nanos },
    /// Something happens at a server.
    Server {
        server: ServerIx,
        life: u32,
        event: ServerEvent,
    },
    /// Something happens to the replicated log.
    Log(LogEvent),
    /// A fault of the schedule begins.
    FaultBegins(u32),
    /// A fault of the schedule ends.
    FaultEnds(u32),
    /// An operator does something.
    Op(u32),
    /// Something happens to a request about a lock.
    Lock(LockEvent),
    /// A second has passed.
    Second,
    /// A processor has done the first work that waited for it.
    Worked { cpu: CpuIx, life: u32 },
}

/// The steps of a request about a lock.
#[derive(Clone, Copy, Debug)]
pub enum LockEvent {
    /// A client looks what is due.
    Turn { client: usize },
    /// A request arrives at a server.
    Arrives {
        server: ServerIx,
        request: LockRequest,
    },
    /// A renewal arrives at the server that another one takes for the leader.
    LeaderAsked {
        asked: ServerIx,
        leader: ServerIx,
        request: LockRequest,
    },
    /// A majority has told a leader that it still led in this term when it was asked.
    Confirmed {
        asked: ServerIx,
        leader: ServerIx,
        term: u64,
        request: LockRequest,
    },
    /// An answer arrives at its client.
    Answered { request: LockRequest, granted: bool },
}

impl LockEvent {
    /// The server that it happens at.
    pub fn server(&self) -> Option<ServerIx> {
        match self {
            Self::Arrives { server, .. } => Some(*server),
            Self::LeaderAsked { leader, .. } | Self::Confirmed { leader, .. } => Some(*leader),
            Self::Turn { .. } | Self::Answered { .. } => None,
        }
    }
}

/// What a daemon hears from its own host.
#[derive(Debug)]
pub enum NodeInput {
    /// A connection stands, or could not be made.
    Connection {
        attempt: Attempt,
        conn: Option<ConnId>,
    },
    /// An effect of an allocation's lane is carried out now.
    Act(Box<Effect>),
    /// What an effect led to; the lane is free again.
    LaneDone {
        lane: noded_core::effect::Lane,
        event: Option<Box<CoreEvent>>,
    },
    /// Keeper answered about leases.
    Leases(LeasesAnswer),
    /// From keeper.
    Run { run: RunKey, event: RunEvent },
    /// So many records are on the disk.
    Synced { count: u64, file: u32 },
    /// A full disk is tried again.
    JournalRetry,
}

/// What happens on a host.
#[derive(Debug)]
pub enum HostEvent {
    /// Keeper executed a program.
    Executed(RunKey),
    /// A task ends by itself, if it still runs.
    Ends(RunKey),
    /// A task that was asked to end does so.
    Obeys(RunKey),
    /// The time to end by itself is over.
    KillDue(RunKey),
    /// An allocation's lease may have run out.
    LeaseDue(AllocId),
    /// The daemon is started again.
    DaemonStarts,
}

/// From a node to a server.
#[derive(Debug)]
pub enum ToServer {
    Hello(Box<HelloMessage>),
    SyncPart(Box<SyncMessage>),
    Heartbeat {
        epoch: u64,
        tick: u64,
        sent: u64,
    },
    WatchAck {
        epoch: u64,
        index: u64,
    },
    OpenWatch {
        epoch: u64,
        known: Option<BTreeMap<AllocId, u64>>,
    },
    Facts {
        epoch: u64,
        facts: Arc<Node>,
    },
    Batch(Box<noded_core::effect::StatusBatch>),
    /// The node closed the connection.
    Closed,
}

/// A Hello with what the daemon adds.
#[derive(Clone, Debug)]
pub struct HelloMessage {
    pub hello: noded_core::effect::Hello,
    pub boot_id: [u8; 16],
    pub facts: Option<Arc<Node>>,
}

/// A part of a complete report with what the daemon adds.
#[derive(Clone, Debug)]
pub struct SyncMessage {
    pub part: noded_core::effect::SyncPart,
    pub facts: Option<Arc<Node>>,
}

/// From a server to a node.
#[derive(Debug)]
pub enum ToNode {
    Welcome(Box<Welcome>),
    Refused(RefusedReason),
    SyncAck {
        epoch: u64,
        index: u64,
    },
    HeartbeatAck {
        tick: u64,
        confirmed: u64,
        /// The server has not reached the leader for a while.
        cut_off: bool,
        /// The shortest time between two heartbeats that the server can bear.
        pace: Duration,
    },
    FactsAck {
        epoch: u64,
    },
    BatchAck(Box<BatchAck>),
    Map(Box<WatchMap>),
    Delta(Box<WatchDelta>),
    /// The server has no time for the connection now.
    Busy,
    /// The server ended a stream: the whole connection is not worth keeping.
    Ended,
}

/// What happens at a server.
#[derive(Debug)]
pub enum ServerEvent {
    /// It applies the log up to here.
    Apply { upto: u64 },
    /// It has taken a snapshot from the leader.
    Install,
    /// It tells the leader whom it heard.
    ReportTick,
    /// Another server's liveness report arrives.
    Report {
        from: ServerIx,
        number: u64,
        reading: Reading,
        heard: Box<[Heard]>,
    },
    /// The leader confirmed a report.
    Confirmed {
        number: u64,
        not_watched: Vec<NodeIx>,
        led_for: Duration,
    },
    /// A report was not confirmed in time, or refused.
    NotConfirmed { number: u64 },
    /// It learns who leads.
    Learns { leader: Option<ServerIx>, term: u64 },
    /// The leader's loop may have something to do.
    LeaderTimer { reign: Reign },
    /// The leader looks after the root keys, or goes on with what it began.
    KeysDue { reign: Reign },
    /// A scheduler thread is done.
    Decided(Box<Decided>),
    /// The next piece of a plan is proposed.
    NextPiece(Box<PlanInHand>),
    /// It is looked once more for what became of a piece.
    Settle(Box<PlanInHand>),
    /// Something waited long enough for the log.
    WaitOver { conn: ConnId, what: Waits },
    /// A consistent read has waited long enough.
    ReadOver { read: u64 },
    /// A complete report is overdue.
    SyncOverdue { conn: ConnId, epoch: SessionEpoch },
    /// The first packet of a connection arrives.
    Arrival { guest: Guest, wish: Wish },
    /// A connection may have waited for too long at the door.
    DoorDue,
    /// A handshake has its turn.
    Handshake(Guest),
    /// A node has had its place for too long.
    PlaceOver { conn: ConnId },
    /// It looks how late it is.
    Probe,
}

/// What a session waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Waits {
    /// For the node's watermark, before its Hello is looked at.
    Hello,
    /// For the session's own commit, before the node is welcome.
    Welcome,
    /// For the session's own commit, before its report is looked at.
    Sync,
    /// For the report's commit, before it is acknowledged.
    Report,
}

/// An evaluation that was scheduled.
#[derive(Debug)]
pub struct Decided {
    pub reign: Reign,
    pub delivery: Delivery,
    pub lane: Lane,
    pub decision: Decision,
}

/// What happens to the log.
#[derive(Debug)]
pub enum LogEvent {
    /// Entries in flight may be on a majority.
    Commit { term: u64 },
    /// A planted bug's second entry is proposed, if its leader still leads.
    Late { term: u64, stamped: Arc<Stamped> },
    /// A server stands for election.
    Elect { term: u64 },
    /// A change is tried, or tried again.
    Try { change: u64 },
    /// A forwarded change arrives at whom its server takes for the leader.
    Forwarded { change: u64, leader: ServerIx },
    /// A consistent read is tried again.
    ReadTry { read: u64 },
    /// An attempt at a consistent read may have got lost.
    ReadLate { read: u64, attempt: u32 },
    /// Whom a server takes for the leader is asked what is on a majority.
    ReadAsked {
        read: u64,
        attempt: u32,
        leader: ServerIx,
    },
    /// So many entries are on a majority.
    ReadIndex { read: u64, attempt: u32, upto: u64 },
    /// The answer to a change arrives at the server that asked.
    Answer {
        change: u64,
        attempt: u32,
        answer: Box<Answer>,
    },
}

/// The answer to a change.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It is on a majority.
    Done { index: u64, outcome: Outcome },
    /// The state says no.
    Refused(Refusal),
    /// Nothing happened: there is no leader.
    NoLeader,
    /// It may have happened.
    Unknown,
}
