//! One node's session, from its Hello to its end: the server's `gateway/session.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{DaemonLife, JoinVerdict, NodeHello};
use controlplane_state::{
    Command, HelloAnswer, Outcome, Refusal, SessionEpoch, Snapshot, Welcome, WelcomeKind,
};
use noded_core::Watermark;
use noded_core::event::{RefusedReason, Welcome as NodeWelcome};
use noded_core::key::SessionEpoch as NodeEpoch;
use protocol_model::NodeStatus;

use super::change::Then;
use super::heard::Heard;
use super::sync::Sync;
use super::updates::UpdateStream;
use super::watch::Watch;
use super::{CATCH_UP_MAX, SYNC_MAX, SessionEntry};
use crate::event::{Answer, HelloMessage, NodeIx, ServerEvent, ServerIx, ToNode, ToServer, Waits};
use crate::mutant::Mutant;
use crate::net::{ConnId, Side, Stream};
use crate::node_ids::{node_id, secret_hash};
use crate::world::World;

/// What a node is told to wait before it knocks again (as the server).
const RETRY: Duration = Duration::from_millis(500);
/// How often a node says that it lives (the server's default).
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(125);

/// A connection, from the server's end.
#[derive(Debug)]
pub(super) struct ServerConn {
    pub(super) node: NodeIx,
    hello: Option<Box<HelloMessage>>,
    /// A session that was made, until this server has applied it.
    made: Option<Welcome>,
    /// None until the session is made.
    pub(super) epoch: SessionEpoch,
    /// What the node was told before.
    pub(super) watermark: Watermark,
    pub(super) sync: Sync,
    /// The session is not made yet; frames wait for it.
    busy: bool,
    /// The report waits for the log.
    pub(super) syncing: bool,
    frames: VecDeque<ToServer>,
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
            ToServer::OpenWatch { epoch } => self.open_watch(ix, conn, SessionEpoch(epoch)),
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

    fn on_hello(&mut self, ix: ServerIx, conn: ConnId, node: NodeIx, hello: Box<HelloMessage>) {
        let lenient = self.mutant == Some(Mutant::StaleAnswer);
        let server = &mut self.servers[usize::from(ix)];
        let watermark = hello.hello.watermark;
        server.conns_of.entry(node).or_default().push(conn);
        let behind = same_history(&server.snapshot, watermark)
            && server.snapshot.index() < watermark.index
            && !lenient;
        server.conns.insert(
            conn,
            ServerConn {
                node,
                hello: Some(hello),
                made: None,
                epoch: SessionEpoch::NONE,
                watermark,
                sync: Sync::default(),
                busy: true,
                syncing: false,
                frames: VecDeque::new(),
                updates: [UpdateStream::default(), UpdateStream::default()],
                watch: None,
            },
        );
        if behind {
            let what = Waits::Hello;
            server.waits.insert((watermark.index, conn, what));
            self.server_event(ix, CATCH_UP_MAX, ServerEvent::WaitOver { conn, what });
        } else {
            self.greet(ix, conn);
        }
    }

    /// Something was applied: sessions that waited for it go on.
    pub(super) fn wake_waiting(&mut self, ix: ServerIx, index: u64) {
        let waits = &mut self.servers[usize::from(ix)].waits;
        let mut waiting = Vec::new();
        while let Some((at, conn, what)) = waits.first().copied()
            && at <= index
        {
            waits.pop_first();
            waiting.push((conn, what));
        }
        for (conn, what) in waiting {
            match what {
                Waits::Hello => self.greet(ix, conn),
                Waits::Welcome => self.welcome_made(ix, conn),
                Waits::Sync => self.propose_sync(ix, conn),
            }
        }
    }

    pub(super) fn on_wait_over(&mut self, ix: ServerIx, conn: ConnId, what: Waits) {
        let server = &self.servers[usize::from(ix)];
        let Some(session) = server.conns.get(&conn) else {
            return;
        };
        let index = server.snapshot.index();
        match what {
            Waits::Hello => {
                let waits = session
                    .hello
                    .as_ref()
                    .is_some_and(|it| it.hello.watermark.index > index);
                if waits {
                    self.refuse(ix, conn, RefusedReason::Behind);
                }
            }
            Waits::Welcome => {
                if session.made.is_some() {
                    self.refuse(ix, conn, RefusedReason::Behind);
                }
            }
            Waits::Sync => {
                if session.sync.last.is_some() && session.epoch.0 > index {
                    self.end_stream(ix, conn);
                }
            }
        }
    }

    /// Decides on a Hello: what can be decided outside of the log, then the log.
    fn greet(&mut self, ix: ServerIx, conn: ConnId) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let Some(message) = session.hello.take() else {
            return;
        };
        let HelloMessage {
            hello,
            boot_id,
            facts,
        } = *message;
        session.watermark = hello.watermark;
        let knock = NodeHello {
            node: node_id(session.node),
            secret_hash: secret_hash(session.node),
            nonce: hello.nonce,
            last_epoch: SessionEpoch(hello.last_epoch.0),
            boot_id,
            daemon: if hello.daemon_restarted {
                DaemonLife::Restarted
            } else {
                DaemonLife::Continued
            },
            facts,
            join: JoinVerdict::Allowed,
        };
        if server.is_leader(ix)
            && let HelloAnswer::Welcome(welcome) = server.snapshot.answer_hello(&knock)
        {
            return self.welcome(ix, conn, welcome);
        }
        self.change(ix, Command::NodeHello(Box::new(knock)), Then::Greet(conn));
    }

    pub(super) fn on_greeted(&mut self, ix: ServerIx, conn: ConnId, answer: Answer) {
        match answer {
            Answer::Done {
                outcome: Outcome::Welcome(welcome),
                ..
            } => {
                let server = &mut self.servers[usize::from(ix)];
                let index = server.snapshot.index();
                if let Some(session) = server.conns.get_mut(&conn) {
                    session.made = Some(welcome);
                    if index < welcome.epoch.0 {
                        let what = Waits::Welcome;
                        server.waits.insert((welcome.epoch.0, conn, what));
                        let over = ServerEvent::WaitOver { conn, what };
                        return self.server_event(ix, CATCH_UP_MAX, over);
                    }
                    self.welcome_made(ix, conn);
                }
            }
            Answer::Refused(refusal) => {
                let reason = match refusal {
                    Refusal::WrongSecret(_) => RefusedReason::WrongSecret,
                    Refusal::NeedsFacts(_) => RefusedReason::Unregistered,
                    Refusal::JoinDenied(_) => RefusedReason::JoinToken,
                    Refusal::NotInSession(_) => RefusedReason::NotInSession,
                    _ => RefusedReason::Malformed,
                };
                self.refuse(ix, conn, reason);
            }
            Answer::Done { .. } | Answer::NoLeader | Answer::Unknown => {
                self.refuse(ix, conn, RefusedReason::NoLeader);
            }
        }
    }

    /// This server has applied the session that was made.
    fn welcome_made(&mut self, ix: ServerIx, conn: ConnId) {
        let session = self.servers[usize::from(ix)].conns.get_mut(&conn);
        if let Some(welcome) = session.and_then(|it| it.made.take()) {
            self.welcome(ix, conn, welcome);
        }
    }

    fn welcome(&mut self, ix: ServerIx, conn: ConnId, welcome: Welcome) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        session.epoch = welcome.epoch;
        session.sync.done = welcome.kind == WelcomeKind::Resumed;
        session.busy = false;
        let owes = !session.sync.done;
        let entry = SessionEntry {
            epoch: welcome.epoch,
            conn,
            known: Arc::default(),
        };
        server.sessions.insert(session.node, entry);
        match welcome.kind {
            WelcomeKind::New => self.counts.sessions += 1,
            WelcomeKind::Repeated => self.counts.repeats += 1,
            WelcomeKind::Resumed => self.counts.resumes += 1,
        }
        let snapshot = &server.snapshot;
        let message = NodeWelcome {
            epoch: NodeEpoch(welcome.epoch.0),
            resumed: welcome.kind == WelcomeKind::Resumed,
            applied_urgent_seq: welcome.applied_urgent_seq,
            applied_typical_seq: welcome.applied_typical_seq,
            heartbeat_interval: HEARTBEAT_INTERVAL,
            typical_interval: Duration::from_secs(1),
            urgent_delay: Duration::from_millis(5),
            retry_interval: RETRY,
            applied: Watermark {
                incarnation: snapshot.cluster().incarnation,
                index: snapshot.index(),
            },
            servers: self.servers.len(),
        };
        self.send_to_node(conn, Stream::Session, ToNode::Welcome(Box::new(message)));
        if owes {
            let epoch = welcome.epoch;
            let event = ServerEvent::SyncOverdue { conn, epoch };
            self.server_event(ix, SYNC_MAX, event);
        }
        // It may have ended before anybody listened.
        if self.is_over(ix, conn) {
            return self.end_stream(ix, conn);
        }
        self.turn_session(ix, conn);
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
        if let ToServer::Heartbeat { sent, .. } = frame {
            let epoch = SessionEpoch(epoch);
            let at = self.now;
            server.heard.heard(Heard {
                node,
                epoch,
                at,
                sent,
            });
            let confirmed = server.heard.confirmed(node);
            self.send_to_node(conn, Stream::Session, ToNode::HeartbeatAck { confirmed });
        } else if let ToServer::Facts { facts, .. } = frame {
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
    fn is_over(&self, ix: ServerIx, conn: ConnId) -> bool {
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
        // Unless another connection took its place.
        let entry = server.sessions.get(&session.node);
        let own = entry.is_some_and(|entry| entry.conn == conn);
        if own {
            server.sessions.remove(&session.node);
            server.heard.forget(session.node);
        }
    }
}

pub(super) fn same_history(snapshot: &Snapshot, watermark: Watermark) -> bool {
    let incarnation = snapshot.cluster().incarnation;
    incarnation.is_some() && incarnation == watermark.incarnation
}
