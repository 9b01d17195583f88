//! One node's session, from its welcome to its end: the second half of the server's
//! `gateway/session.rs`.

use std::collections::VecDeque;

use controlplane_state::{Command, Outcome, SessionEpoch, Snapshot, Welcome};
use noded_core::Watermark;
use noded_core::event::RefusedReason;
use protocol_model::NodeStatus;

use super::change::Then;
use super::heard::Heard;
use super::sync::Sync;
use super::updates::UpdateStream;
use super::watch::Watch;
use crate::event::{Answer, HelloMessage, NodeIx, ServerIx, ToNode, ToServer};
use crate::mutant::Mutant;
use crate::net::{ConnId, Side, Stream};
use crate::node_ids::node_id;
use crate::time::Nanos;
use crate::world::World;

/// A connection, from the server's end.
#[derive(Debug)]
pub(super) struct ServerConn {
    pub(super) node: NodeIx,
    pub(super) hello: Option<Box<HelloMessage>>,
    /// When it came.
    pub(super) greeted: Nanos,
    /// A session that was made, until this server has applied it.
    pub(super) made: Option<Welcome>,
    /// None until the session is made.
    pub(super) epoch: SessionEpoch,
    /// What the node was told before.
    pub(super) watermark: Watermark,
    /// The state when the node knocked, for who watches, until the node is welcome: a snapshot
    /// keeps what was replaced since.
    pub(super) asked: Option<Snapshot>,
    pub(super) sync: Sync,
    /// The session is not made yet; frames wait for it.
    pub(super) busy: bool,
    /// The report waits for the log.
    pub(super) syncing: bool,
    pub(super) frames: VecDeque<ToServer>,
    pub(super) updates: [UpdateStream; 2],
    pub(super) watch: Option<Watch>,
}

impl World {
    /// A message of a node.
    pub(crate) fn on_to_server(&mut self, conn: ConnId, stream: Stream, message: ToServer) {
        let Some(link) = self.net.conn(conn) else {
            return;
        };
        let (ix, node, life) = (link.server, link.node, link.server_life);
        if !link.open[Side::Server as usize] {
            return;
        }
        let server = &mut self.servers[usize::from(ix)];
        if !server.up || server.life != life {
            // A server that was started again says that it does not know the connection.
            if server.up {
                self.reset(conn);
            }
            return;
        }
        match message {
            ToServer::Hello(hello) => self.on_hello(ix, conn, node, hello),
            ToServer::Closed => self.forget_conn(ix, conn),
            ToServer::OpenWatch { epoch, known } => {
                self.open_watch(ix, conn, SessionEpoch(epoch), known);
            }
            ToServer::Batch(batch) => self.on_batch(ix, conn, batch),
            frame => {
                debug_assert_eq!(stream, Stream::Session);
                if let Some(session) = server.conns.get_mut(&conn) {
                    if session.busy || !session.frames.is_empty() {
                        session.frames.push_back(frame);
                    } else {
                        self.on_frame(ix, conn, frame);
                    }
                }
            }
        }
    }

    pub(super) fn turn_session(&mut self, ix: ServerIx, conn: ConnId) {
        loop {
            let Some(session) = self.servers[usize::from(ix)].conns.get_mut(&conn) else {
                return;
            };
            if session.busy {
                return;
            }
            let Some(frame) = session.frames.pop_front() else {
                return;
            };
            self.on_frame(ix, conn, frame);
        }
    }

    fn on_frame(&mut self, ix: ServerIx, conn: ConnId, frame: ToServer) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let (node, own) = (session.node, session.epoch.0);
        let (ToServer::Heartbeat { epoch, .. }
        | ToServer::WatchAck { epoch, .. }
        | ToServer::Facts { epoch, .. }) = frame
        else {
            if let ToServer::SyncPart(part) = frame {
                self.on_sync_part(ix, conn, part);
            }
            return;
        };
        if epoch != own {
            return self.end_stream(ix, conn);
        }
        if let ToServer::Heartbeat { tick, sent, .. } = frame {
            let epoch = SessionEpoch(epoch);
            let (at, pace) = (self.now, self.pace(ix));
            let server = &mut self.servers[usize::from(ix)];
            server.heard.heard(Heard {
                node,
                epoch,
                at,
                sent,
            });
            let ack = ToNode::HeartbeatAck {
                tick,
                confirmed: server.heard.confirmed(node, epoch),
                cut_off: server.heard.is_cut_off(),
                pace,
            };
            self.send_to_node(conn, Stream::Session, ack);
        } else if let ToServer::Facts { facts, .. } = frame {
            if self.mutant == Some(Mutant::FactsUnkept) {
                let (index, outcome) = (0, Outcome::Done);
                return self.on_facts_kept(ix, conn, &Answer::Done { index, outcome });
            }
            let command = Command::NodeFacts {
                node: node_id(node),
                epoch: SessionEpoch(epoch),
                facts,
            };
            self.change(ix, command, Then::Facts(conn));
        }
    }

    pub(super) fn on_facts_kept(&mut self, ix: ServerIx, conn: ConnId, answer: &Answer) {
        let session = self.servers[usize::from(ix)].conns.get(&conn);
        let Some(epoch) = session.map(|it| it.epoch.0) else {
            return;
        };
        match answer {
            Answer::Done { .. } => {
                self.send_to_node(conn, Stream::Session, ToNode::FactsAck { epoch });
            }
            Answer::Refused(_) | Answer::NoLeader | Answer::Unknown => {
                self.refuse(ix, conn, RefusedReason::NoLeader);
            }
        }
    }

    /// The node's session, status, or what is wanted of it changed in this server's state.
    pub(super) fn on_node_news(&mut self, ix: ServerIx, node: NodeIx) {
        let Some(conns) = self.servers[usize::from(ix)].conns_of.get(&node) else {
            return;
        };
        for conn in conns.clone() {
            if self.is_over(ix, conn) {
                self.refuse(ix, conn, RefusedReason::NotInSession);
            } else {
                self.turn_watch(ix, conn);
            }
        }
    }

    /// Whether the state says that the session is over.
    pub(super) fn is_over(&self, ix: ServerIx, conn: ConnId) -> bool {
        let server = &self.servers[usize::from(ix)];
        let Some(session) = server.conns.get(&conn) else {
            return false;
        };
        if session.epoch == SessionEpoch::NONE {
            return false;
        }
        !server
            .snapshot
            .node(node_id(session.node))
            .is_some_and(|record| {
                let status = record.node.status;
                record.session.epoch == session.epoch
                    && matches!(status, NodeStatus::Ready | NodeStatus::Initializing)
            })
    }

    pub(super) fn refuse(&mut self, ix: ServerIx, conn: ConnId, reason: RefusedReason) {
        self.counts.refusals += 1;
        self.note(|| format!("s{ix} refuses {conn:?}: {reason:?}"));
        self.send_to_node(conn, Stream::Session, ToNode::Refused(reason));
        self.forget_conn(ix, conn);
    }

    /// The server ends a stream: to the node that is the end of the connection.
    pub(super) fn end_stream(&mut self, ix: ServerIx, conn: ConnId) {
        self.send_to_node(conn, Stream::Session, ToNode::Ended);
        self.forget_conn(ix, conn);
    }

    /// Every connection of a server ends, as if something between it and the nodes began anew.
    pub(crate) fn drop_conns(&mut self, ix: ServerIx) {
        let conns: Vec<ConnId> = self.servers[usize::from(ix)]
            .conns
            .keys()
            .copied()
            .collect();
        for conn in conns {
            self.end_stream(ix, conn);
        }
    }

    /// Nothing of a connection is left at a server.
    pub(crate) fn forget_conn(&mut self, ix: ServerIx, conn: ConnId) {
        self.net.leave(conn, Side::Server);
        self.free_place(ix, conn, false);
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.remove(&conn) else {
            return;
        };
        if let Some(conns) = server.conns_of.get_mut(&session.node) {
            conns.retain(|other| *other != conn);
            if conns.is_empty() {
                server.conns_of.remove(&session.node);
            }
        }
        // Unless it goes on over another connection.
        if server.sessions.close(session.node, conn) {
            server.heard.forget(session.node);
        }
    }
}

pub(super) fn same_history(snapshot: &Snapshot, watermark: Watermark) -> bool {
    let incarnation = snapshot.cluster().incarnation;
    incarnation.is_some() && incarnation == watermark.incarnation
}
