//! From a node's Hello to its welcome: the server's `gateway/hello.rs`.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{JoinVerdict, NodeHello};
use controlplane_state::{
    Command, HelloAnswer, Outcome, Refusal, SessionEpoch, Snapshot, Welcome, WelcomeKind,
};
use noded_core::Watermark;
use noded_core::event::{RefusedReason, Welcome as NodeWelcome};
use noded_core::key::SessionEpoch as NodeEpoch;
use protocol_model::Node;

use super::{Held, ServerConn, Stage};
use crate::ids::{NODE, secret_hash};
use crate::log::{Answer, Then};
use crate::mutant::Mutant;
use crate::net::{ConnId, SERVERS, ServerIx, Stream, ToNode, ToServer};
use crate::world::World;

/// Heartbeats are answered where they are sent, so they are rare: what other timers do comes first.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3600);
/// Typical updates are as urgent ones, and later: they leave when everything else is done.
const TYPICAL_INTERVAL: Duration = Duration::from_secs(600);
const RETRY: Duration = Duration::from_millis(500);

impl World {
    pub(super) fn on_hello(&mut self, ix: ServerIx, conn: ConnId, message: Rc<ToServer>) {
        let ToServer::Hello { hello, .. } = &*message else {
            return;
        };
        let session = ServerConn {
            epoch: SessionEpoch::NONE,
            watermark: hello.watermark,
            stage: Stage::Hello(message),
            sync: super::Sync::default(),
            frames: VecDeque::new(),
            updates: Default::default(),
            watch: None,
        };
        self.servers[ix].conns.insert(conn, session);
        self.wake(ix, conn);
    }

    /// Goes on with what waited for this server to apply more.
    pub(super) fn wake(&mut self, ix: ServerIx, conn: ConnId) {
        let Some(session) = self.servers[ix].conns.get(&conn) else {
            return;
        };
        let index = self.servers[ix].snapshot.index();
        match &session.stage {
            Stage::Hello(message) => {
                let lenient = self.mutant == Some(Mutant::StaleAnswer);
                let ours = same_history(&self.servers[ix].snapshot, session.watermark);
                if !ours || lenient || index >= session.watermark.index {
                    let message = Rc::clone(message);
                    self.greet(ix, conn, &message);
                }
            }
            Stage::Made(welcome) if index >= welcome.epoch.0 => {
                let welcome = *welcome;
                self.welcome(ix, conn, welcome);
            }
            Stage::Asked | Stage::Made(_) => {}
            Stage::Open => self.go_on_with_sync(ix, conn),
        }
    }

    /// A server behind a node does not wait any longer.
    pub fn stop_waiting(&mut self, ix: ServerIx, conn: ConnId) {
        self.servers[ix].digest.note(("late", conn));
        match self.servers[ix].conns.get(&conn).map(|it| &it.stage) {
            Some(Stage::Hello(_) | Stage::Made(_)) => self.refuse(ix, conn, RefusedReason::Behind),
            Some(Stage::Open) => self.end_stream(ix, conn),
            Some(Stage::Asked) | None => {}
        }
        self.tidy_conns();
    }

    /// Decides on a Hello: what can be decided outside of the log, then the log.
    fn greet(&mut self, ix: ServerIx, conn: ConnId, message: &ToServer) {
        let ToServer::Hello {
            hello,
            boot_id,
            facts,
        } = message
        else {
            return;
        };
        if let Some(session) = self.servers[ix].conns.get_mut(&conn) {
            session.stage = Stage::Asked;
        }
        let mut nonce = hello.nonce;
        if self.mutant == Some(Mutant::NonceIgnored) {
            nonce = self.servers[ix].digest.seed();
        }
        let knock = NodeHello {
            node: NODE,
            secret_hash: secret_hash(NODE),
            nonce,
            last_epoch: hello.last_epoch,
            boot_id: *boot_id,
            daemon: hello.daemon,
            facts: facts.as_ref().map(|facts| Arc::new(Node::clone(facts))),
            join: JoinVerdict::Allowed,
        };
        if !matches!(
            self.servers[ix].snapshot.answer_hello(&knock),
            HelloAnswer::Propose
        ) {
            // Asked of what is on a majority, which this server has applied then.
            if self.mutant != Some(Mutant::StaleAnswer) {
                self.catch_up(ix);
            }
            match self.servers[ix].snapshot.answer_hello(&knock) {
                HelloAnswer::Propose => {}
                HelloAnswer::Welcome(welcome) => return self.welcome(ix, conn, welcome),
                HelloAnswer::Refused(refusal) => {
                    return self.refuse(ix, conn, reason_of(&refusal));
                }
            }
        }
        let digest = self.stamp_server(ix);
        self.greeted_with(hello.nonce, nonce);
        let command = Command::NodeHello(Box::new(knock));
        self.propose(command, Then::Greet(ix, conn), digest);
    }

    pub fn on_greeted(&mut self, ix: ServerIx, conn: ConnId, answer: &Answer) {
        let log = self.log.digest;
        self.servers[ix].digest.note((conn, answer.digest(log)));
        match answer.outcome() {
            Some(Outcome::Welcome(welcome)) => {
                let welcome = *welcome;
                if let Some(session) = self.servers[ix].conns.get_mut(&conn) {
                    session.stage = Stage::Made(welcome);
                }
                self.wake(ix, conn);
            }
            Some(Outcome::Refused(refusal)) => {
                let reason = reason_of(refusal);
                self.refuse(ix, conn, reason);
            }
            Some(_) | None => self.refuse(ix, conn, RefusedReason::NoLeader),
        }
        self.tidy_conns();
    }

    fn welcome(&mut self, ix: ServerIx, conn: ConnId, welcome: Welcome) {
        let server = &mut self.servers[ix];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let resumed = welcome.kind == WelcomeKind::Resumed;
        session.epoch = welcome.epoch;
        session.sync.done = resumed;
        session.stage = Stage::Open;
        server.session = Some(Held {
            epoch: welcome.epoch,
            conn,
            known: None,
        });
        let applied = Watermark {
            incarnation: server.snapshot.cluster().incarnation,
            index: server.snapshot.index(),
        };
        let message = NodeWelcome {
            epoch: NodeEpoch(welcome.epoch.0),
            resumed,
            applied_urgent_seq: welcome.applied_urgent_seq,
            applied_typical_seq: welcome.applied_typical_seq,
            heartbeat_interval: HEARTBEAT_INTERVAL,
            calm_interval: HEARTBEAT_INTERVAL,
            typical_interval: TYPICAL_INTERVAL,
            urgent_delay: Duration::ZERO,
            retry_interval: RETRY,
            applied,
            servers: SERVERS,
            newcomer: resumed,
        };
        self.tell(ix, conn, Stream::Session, ToNode::Welcome(message));
        // It may have ended before anybody listened.
        if self.is_over(ix, conn) {
            return self.end_stream(ix, conn);
        }
        self.turn_session(ix, conn);
    }
}

fn reason_of(refusal: &Refusal) -> RefusedReason {
    match refusal {
        Refusal::WrongSecret(_) => RefusedReason::WrongSecret,
        Refusal::NeedsFacts(_) => RefusedReason::Unregistered,
        Refusal::JoinDenied(_) => RefusedReason::JoinToken,
        Refusal::NotInSession(_) => RefusedReason::NotInSession,
        _ => RefusedReason::Malformed,
    }
}

/// Whether what the node was told belongs to this history.
pub(super) fn same_history(snapshot: &Snapshot, watermark: Watermark) -> bool {
    let incarnation = snapshot.cluster().incarnation;
    incarnation.is_some() && incarnation == watermark.incarnation
}
