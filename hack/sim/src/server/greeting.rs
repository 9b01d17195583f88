//! From a node's Hello to its welcome: the server's `gateway/hello.rs`.

use std::collections::VecDeque;
use std::time::Duration;

use controlplane_state::command::{JoinVerdict, NodeHello};
use controlplane_state::{
    Command, HelloAnswer, Outcome, Refusal, SessionEpoch, Welcome, WelcomeKind,
};
use noded_core::Watermark;
use noded_core::event::{RefusedReason, Welcome as NodeWelcome};
use noded_core::key::SessionEpoch as NodeEpoch;

use super::change::Then;
use super::heard::Heard;
use super::held::SessionEntry;
use super::session::{ServerConn, same_history};
use super::sync::Sync;
use super::updates::UpdateStream;
use super::{CATCH_UP_MAX, SYNC_MAX};
use crate::event::{Answer, HelloMessage, NodeIx, ServerEvent, ServerIx, ToNode, Waits};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::net::{ConnId, Stream};
use crate::node_ids::{node_id, secret_hash};
use crate::time::{MILLI, Nanos, SECOND};
use crate::world::World;

/// How often a node says that it lives (the server's default).
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(125);
/// The same where all answers come in time.
pub(super) const CALM_INTERVAL: Duration = Duration::from_millis(500);
/// What a node is told to wait before it knocks again: four times the slowest change of late,
/// within these (as the server).
const RETRY_MIN: Nanos = 500 * MILLI;
const RETRY_MAX: Nanos = 2 * SECOND;

impl World {
    pub(super) fn on_hello(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        node: NodeIx,
        hello: Box<HelloMessage>,
    ) {
        let lenient = self.mutant == Some(Mutant::StaleAnswer);
        let server = &mut self.servers[usize::from(ix)];
        let watermark = hello.hello.watermark;
        server.conns_of.entry(node).or_default().push(conn);
        let asked = Some(self.log.newest.clone());
        let behind = same_history(&server.snapshot, watermark)
            && server.snapshot.index() < watermark.index
            && !lenient;
        server.conns.insert(
            conn,
            ServerConn {
                node,
                hello: Some(hello),
                greeted: self.now,
                made: None,
                epoch: SessionEpoch::NONE,
                watermark,
                asked,
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
                Waits::Report => self.report_seen(ix, conn),
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
            Waits::Report => {
                if session.sync.taken.is_some() {
                    self.refuse(ix, conn, RefusedReason::NoLeader);
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
        if server.heard.is_cut_off() {
            return self.refuse(ix, conn, RefusedReason::NoLeader);
        }
        session.watermark = hello.watermark;
        let knock = NodeHello {
            node: node_id(session.node),
            secret_hash: secret_hash(session.node),
            nonce: hello.nonce,
            last_epoch: hello.last_epoch,
            boot_id,
            daemon: hello.daemon,
            facts,
            join: JoinVerdict::Allowed,
        };
        // The leader's own state may welcome; a follower's may be older than the session, and what
        // would be refused may be of yesterday.
        let hasty = self.mutant == Some(Mutant::ResumesFromOldState);
        let trusted = server.is_leader(ix) || hasty;
        match server.snapshot.answer_hello(&knock) {
            HelloAnswer::Welcome(welcome) if trusted => self.welcome(ix, conn, welcome),
            HelloAnswer::Propose => {
                self.change(ix, Command::NodeHello(Box::new(knock)), Then::Greet(conn));
            }
            HelloAnswer::Welcome(_) | HelloAnswer::Refused(_) => {
                self.read(ix, conn, Box::new(knock));
            }
        }
    }

    /// What is on a majority answers the knock.
    pub(super) fn greet_after_read(&mut self, ix: ServerIx, conn: ConnId, knock: Box<NodeHello>) {
        let server = &self.servers[usize::from(ix)];
        if !server.conns.contains_key(&conn) {
            return;
        }
        match server.snapshot.answer_hello(&knock) {
            HelloAnswer::Propose => self.change(ix, Command::NodeHello(knock), Then::Greet(conn)),
            HelloAnswer::Welcome(welcome) => self.welcome(ix, conn, welcome),
            HelloAnswer::Refused(refusal) => self.refuse(ix, conn, reason_of(&refusal)),
        }
    }

    pub(super) fn read_failed(&mut self, ix: ServerIx, conn: ConnId) {
        self.refuse(ix, conn, RefusedReason::NoLeader);
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
                self.refuse(ix, conn, reason_of(&refusal));
            }
            Answer::Done { .. } | Answer::NoLeader | Answer::Unknown => {
                self.refuse(ix, conn, RefusedReason::NoLeader);
            }
        }
    }

    /// What servers tell nodes to wait: how slow changes were of late is not measured here.
    pub(crate) fn retry_interval(&mut self) -> Duration {
        Duration::from_nanos(self.rng.between(RETRY_MIN, RETRY_MAX))
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
            known: None,
        };
        let (node, epoch, at) = (session.node, welcome.epoch, session.greeted);
        let heard = Heard {
            node,
            epoch,
            at,
            sent: 0,
        };
        server.heard.heard(heard);
        server.sessions.open(session.node, entry);
        let (node, asked) = (session.node, session.asked.take());
        // Nobody hears what is said to a daemon that died meanwhile.
        let life = self.net.conn(conn).map(|it| it.node_life);
        let hears = life == Some(self.nodes[node as usize].life);
        if hears && let Some(asked) = &asked {
            self.observe(Observation::Welcomed {
                node,
                server: ix,
                welcome: &welcome,
                asked,
            });
        }
        match welcome.kind {
            WelcomeKind::New => self.counts.sessions += 1,
            WelcomeKind::Repeated => self.counts.repeats += 1,
            WelcomeKind::Resumed => self.counts.resumes += 1,
        }
        let retry_interval = self.retry_interval();
        let snapshot = &self.servers[usize::from(ix)].snapshot;
        let message = NodeWelcome {
            epoch: NodeEpoch(welcome.epoch.0),
            resumed: welcome.kind == WelcomeKind::Resumed,
            applied_urgent_seq: welcome.applied_urgent_seq,
            applied_typical_seq: welcome.applied_typical_seq,
            heartbeat_interval: heartbeat_interval(self.mutant),
            calm_interval: CALM_INTERVAL,
            typical_interval: Duration::from_secs(1),
            urgent_delay: Duration::ZERO,
            retry_interval,
            applied: Watermark {
                incarnation: snapshot.cluster().incarnation,
                index: snapshot.index(),
            },
            servers: self.servers.len(),
            newcomer: welcome.kind == WelcomeKind::Resumed,
        };
        self.send_to_node(conn, Stream::Session, ToNode::Welcome(Box::new(message)));
        if !owes {
            self.free_place(ix, conn, true);
        }
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
}

/// A refusal of the state in the words of the protocol.
fn reason_of(refusal: &Refusal) -> RefusedReason {
    match refusal {
        Refusal::WrongSecret(_) => RefusedReason::WrongSecret,
        Refusal::NeedsFacts(_) => RefusedReason::Unregistered,
        Refusal::JoinDenied(_) => RefusedReason::JoinToken,
        Refusal::NotInSession(_) => RefusedReason::NotInSession,
        _ => RefusedReason::Malformed,
    }
}

fn heartbeat_interval(mutant: Option<Mutant>) -> Duration {
    match mutant {
        Some(Mutant::RestsInDoubt) => CALM_INTERVAL,
        _ => HEARTBEAT_INTERVAL,
    }
}
