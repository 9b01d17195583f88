//! What can happen in one step, and what it costs.

use std::fmt;

use crate::leading::Op;
use crate::net::{ConnId, ServerIx, Stream};

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The daemon starts.
    Start,
    /// A connection that the node began to make stands.
    Stands(ConnId),
    /// The next message of a stream arrives at the server.
    ToServer(ConnId, Stream),
    /// The next message of a stream arrives at the node.
    ToNode(ConnId, Stream),
    /// The node's end of a connection is lost; what was sent may still arrive.
    NodeLoses(ConnId),
    /// The server's end is lost.
    ServerLoses(ServerIx, ConnId),
    /// A proposal is committed, and whoever asked is told.
    Commit(usize),
    /// Whoever asked hears that it is unknown what becomes of it.
    Unanswered(usize),
    /// A server applies the next entry.
    Apply(ServerIx),
    /// A server does not wait any longer for what it has to apply first.
    StopWaiting(ServerIx, ConnId),
    /// A server is killed and starts again.
    Restart(ServerIx),
    /// What the daemon asked its disk for is done.
    DiskSynced,
    /// An evaluation is scheduled.
    Schedule,
    /// The other node reports what it runs.
    OtherNode,
    /// An operator does something.
    Operator(Op),
    /// The leader decides that the node is silent, rightly or not.
    Missed,
    /// The leader decides that the node owes its report for too long.
    Overdue,
    /// The node has been silent for as long as anybody tolerates.
    WindowEnds,
    /// kill -9 of the daemon.
    Kill,
    /// The host loses its power.
    PowerOff,
    /// Heartbeats are not answered any more on this connection.
    Quiet,
    /// The daemon's next timer fires.
    Timer,
}

/// What a step takes of what may go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// It happens sooner or later.
    Free,
    /// It need not happen.
    Fault,
    /// Somebody wants it.
    Extra,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => write!(f, "the daemon starts"),
            Self::Stands(ConnId(conn)) => write!(f, "connection {conn} stands"),
            Self::ToServer(ConnId(conn), stream) => {
                write!(f, "connection {conn}, {stream:?}: arrives at the server")
            }
            Self::ToNode(ConnId(conn), stream) => {
                write!(f, "connection {conn}, {stream:?}: arrives at the node")
            }
            Self::NodeLoses(ConnId(conn)) => write!(f, "connection {conn} is lost to the node"),
            Self::ServerLoses(_, ConnId(conn)) => {
                write!(f, "connection {conn} is lost to the server")
            }
            Self::Commit(number) => write!(f, "proposal {number} is committed"),
            Self::Unanswered(number) => write!(f, "proposal {number} remains without an answer"),
            Self::Apply(server) => write!(f, "server {server} applies an entry"),
            Self::StopWaiting(server, ConnId(conn)) => {
                write!(f, "server {server} waits no longer on connection {conn}")
            }
            Self::Restart(server) => write!(f, "server {server} is killed and starts again"),
            Self::DiskSynced => write!(f, "the journal is on the disk"),
            Self::Schedule => write!(f, "an evaluation is scheduled"),
            Self::OtherNode => write!(f, "the other node reports"),
            Self::Operator(Op::Register) => write!(f, "an operator registers the jobs"),
            Self::Operator(Op::Stop) => write!(f, "an operator stops the plain job"),
            Self::Missed => write!(f, "the leader takes the node for silent"),
            Self::Overdue => write!(f, "the leader finds the report overdue"),
            Self::WindowEnds => write!(f, "the disconnect window ends"),
            Self::Kill => write!(f, "the daemon is killed"),
            Self::PowerOff => write!(f, "the host loses its power"),
            Self::Quiet => write!(f, "heartbeats are not answered any more"),
            Self::Timer => write!(f, "the daemon's next timer fires"),
        }
    }
}
