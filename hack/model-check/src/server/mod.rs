//! A server, as far as a node's session reaches: the state it has applied, its connections, whose
//! session it holds. What is decided is decided by the product's pure parts; what stands between
//! them in the server's `gateway/` is imitated, file by file.

mod greeting;
mod sync;
mod updates;
mod watch;

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use controlplane_state::watch::Chain;
use controlplane_state::{SessionEpoch, Snapshot, Welcome};
use noded_core::Watermark;
use noded_core::effect::StatusBatch;
use noded_core::event::RefusedReason;
use protocol_model::{AllocId, NodeStatus};

use crate::digest::Digest;
use crate::ids::NODE;
use crate::net::{ConnId, ServerIx, Stream, ToNode, ToServer, push};
use crate::world::World;
use sync::Sync;

/// One server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// How many entries it has applied, and what it sees.
    pub applied: u64,
    pub snapshot: Snapshot,
    pub digest: Digest,
    sent: u64,
    /// The node's session, where it is here.
    session: Option<Held>,
    pub conns: BTreeMap<ConnId, ServerConn>,
}

/// What the server keeps of a session that it holds.
#[derive(Clone, Debug)]
struct Held {
    epoch: SessionEpoch,
    conn: ConnId,
    /// `None` where the session went on here without a complete report.
    known: Option<Arc<BTreeMap<AllocId, u64>>>,
}

/// A connection, from the server's end.
#[derive(Clone, Debug)]
pub struct ServerConn {
    stage: Stage,
    /// None until the session is made.
    pub epoch: SessionEpoch,
    watermark: Watermark,
    sync: Sync,
    frames: VecDeque<Rc<ToServer>>,
    updates: [UpdateStream; 2],
    watch: Option<Watch>,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Waits until this server has applied what the node has seen.
    Hello(Rc<ToServer>),
    /// In the log's hands.
    Asked,
    /// Waits until this server has applied the session's own entry.
    Made(Welcome),
    Open,
}

/// One class of updates of a session.
#[derive(Clone, Debug, Default)]
struct UpdateStream {
    opened: Option<SessionEpoch>,
    busy: bool,
    queue: VecDeque<StatusBatch>,
}

#[derive(Clone, Debug)]
struct Watch {
    epoch: SessionEpoch,
    /// What the node named as its own.
    known: Option<Arc<BTreeMap<AllocId, u64>>>,
    chain: Option<Chain>,
}

impl ServerConn {
    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether it waits for this server to apply more.
    pub fn waits(&self) -> bool {
        matches!(self.stage, Stage::Hello(_) | Stage::Made(_)) || self.sync.waits()
    }
}

impl World {
    /// A message of the node arrives.
    pub fn on_to_server(&mut self, conn: ConnId, stream: Stream) {
        let Some(link) = self.conns.get_mut(&conn) else {
            return;
        };
        let ix = link.server;
        let Some(sent) = crate::net::pop(&mut link.to_server, stream) else {
            return;
        };
        self.servers[ix].digest.note((conn, sent.digest));
        match &*sent.message {
            ToServer::Hello { .. } => self.on_hello(ix, conn, sent.message),
            ToServer::OpenWatch { epoch, known } => {
                self.open_watch(ix, conn, SessionEpoch(*epoch), known.clone());
            }
            ToServer::Batch(batch) => self.on_batch(ix, conn, batch.clone()),
            ToServer::SyncPart { .. } | ToServer::Facts { .. } => {
                if let Some(session) = self.servers[ix].conns.get_mut(&conn) {
                    session.frames.push_back(sent.message);
                    self.turn_session(ix, conn);
                }
            }
        }
        self.tidy_conns();
    }

    fn turn_session(&mut self, ix: ServerIx, conn: ConnId) {
        while let Some(session) = self.servers[ix].conns.get_mut(&conn)
            && session.is_open()
            && let Some(frame) = session.frames.pop_front()
        {
            self.on_frame(ix, conn, &frame);
        }
    }

    fn on_frame(&mut self, ix: ServerIx, conn: ConnId, frame: &ToServer) {
        let Some(session) = self.servers[ix].conns.get(&conn) else {
            return;
        };
        let own = session.epoch.0;
        match frame {
            ToServer::SyncPart { part, facts } => self.on_sync_part(ix, conn, part, facts.clone()),
            ToServer::Facts { epoch, facts } if *epoch == own => {
                let command = controlplane_state::Command::NodeFacts {
                    node: NODE,
                    epoch: SessionEpoch(own),
                    facts: Arc::new(protocol_model::Node::clone(facts)),
                };
                let then = crate::log::Then::Facts(ix, conn);
                let digest = self.stamp_server(ix);
                self.propose(command, then, digest);
            }
            ToServer::Facts { .. } => self.end_stream(ix, conn),
            ToServer::Hello { .. } | ToServer::OpenWatch { .. } | ToServer::Batch(_) => {}
        }
    }

    pub fn on_facts_kept(&mut self, ix: ServerIx, conn: ConnId, answer: &crate::log::Answer) {
        let log = self.log.digest;
        self.servers[ix].digest.note((conn, answer.digest(log)));
        let Some(epoch) = self.servers[ix].conns.get(&conn).map(|it| it.epoch.0) else {
            return;
        };
        let kept = answer
            .outcome()
            .is_some_and(|it| !matches!(it, controlplane_state::Outcome::Refused(_)));
        if kept {
            self.tell(ix, conn, Stream::Session, ToNode::FactsAck { epoch });
        } else {
            self.refuse(ix, conn, RefusedReason::NoLeader);
        }
    }

    /// A server applies the next entry: everyone who follows the log there is told.
    pub fn apply_next(&mut self, ix: ServerIx) {
        let Some(entry) = self.log.entry(self.servers[ix].applied).cloned() else {
            return;
        };
        let server = &mut self.servers[ix];
        server.applied += 1;
        server.snapshot = entry.snapshot.clone();
        server.digest.note(("apply", entry.digest));
        if entry.signals.iter().any(|it| it.node() == Some(NODE)) {
            let conns: Vec<ConnId> = self.servers[ix].conns.keys().copied().collect();
            for conn in conns {
                if self.is_over(ix, conn) {
                    self.refuse(ix, conn, RefusedReason::NotInSession);
                } else {
                    self.turn_watch(ix, conn);
                }
            }
        }
        let conns: Vec<ConnId> = self.servers[ix].conns.keys().copied().collect();
        for conn in conns {
            self.wake(ix, conn);
        }
        self.tidy_conns();
        let applied = self.servers.iter().map(|it| it.applied).min();
        self.log.trim(applied.unwrap_or(0));
    }

    /// Everything that is committed by now.
    fn catch_up(&mut self, ix: ServerIx) {
        while self.servers[ix].applied < self.log.committed() {
            self.apply_next(ix);
        }
    }

    /// Whether the state says that the session is over.
    fn is_over(&self, ix: ServerIx, conn: ConnId) -> bool {
        let server = &self.servers[ix];
        let Some(session) = server.conns.get(&conn) else {
            return false;
        };
        if session.epoch == SessionEpoch::NONE {
            return false;
        }
        !server.snapshot.node(NODE).is_some_and(|record| {
            let status = record.node.status;
            record.session.epoch == session.epoch
                && matches!(status, NodeStatus::Ready | NodeStatus::Initializing)
        })
    }

    /// What this server says next is something new.
    fn stamp_server(&mut self, ix: ServerIx) -> Digest {
        let server = &mut self.servers[ix];
        server.sent += 1;
        server.digest.with(("sent", server.sent))
    }

    fn tell(&mut self, ix: ServerIx, conn: ConnId, stream: Stream, message: ToNode) {
        let digest = self.stamp_server(ix);
        if let Some(link) = self.conns.get_mut(&conn)
            && link.node_open
        {
            push(&mut link.to_node, stream, message, digest);
        }
    }

    fn refuse(&mut self, ix: ServerIx, conn: ConnId, reason: RefusedReason) {
        self.tell(ix, conn, Stream::Session, ToNode::Refused(reason));
        self.forget_conn(ix, conn);
    }

    /// The server ends a stream: to the node that is the end of the connection.
    fn end_stream(&mut self, ix: ServerIx, conn: ConnId) {
        self.tell(ix, conn, Stream::Session, ToNode::Ended);
        self.forget_conn(ix, conn);
    }

    /// Nothing of a connection is left at a server.
    pub fn forget_conn(&mut self, ix: ServerIx, conn: ConnId) {
        let server = &mut self.servers[ix];
        server.conns.remove(&conn);
        if server.session.as_ref().is_some_and(|it| it.conn == conn) {
            server.session = None;
        }
        if let Some(link) = self.conns.get_mut(&conn) {
            link.leave_server();
        }
    }

    /// A server is killed and starts again: its log is where it was.
    pub fn restart_server(&mut self, ix: ServerIx) {
        self.servers[ix].digest.note("restart");
        let conns = self.conns.iter().filter(|(_, link)| link.server == ix);
        let conns: Vec<ConnId> = conns.map(|(conn, _)| *conn).collect();
        for conn in conns {
            self.forget_conn(ix, conn);
        }
        for proposal in &mut self.log.pending {
            proposal.then.forget(ix);
        }
        self.tidy_conns();
    }
}
