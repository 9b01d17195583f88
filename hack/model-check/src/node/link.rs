//! The node's connections, and what it says on them: the daemon's `session.rs`.

use std::rc::Rc;
use std::time::Duration;

use noded_core::Event as CoreEvent;
use noded_core::effect::{ServerChoice, SessionMessage, UpdateClass};
use noded_core::event::{Ending, HeartbeatAck, Refused, SessionEvent};
use noded_core::key::{Attempt, SessionEpoch};
use protocol_model::AllocId;

use super::Link;
use crate::mutant::Mutant;
use crate::net::{Conn, ConnId, SERVERS, Stream, ToNode, ToServer, pop, push};
use crate::world::World;

impl World {
    pub(super) fn connect(&mut self, attempt: Attempt, choice: ServerChoice) {
        if !choice.standby {
            while let Some(link) = self.host.links.first().copied() {
                self.drop_link(link.attempt);
            }
        }
        let host = &mut self.host;
        let apart_from = choice.apart_from.and_then(|attempt| {
            let link = host.links.iter().find(|link| link.attempt == attempt);
            link.map(|link| link.server)
        });
        // The server that was tried last is not the next.
        let avoided = apart_from.or(host.last_server);
        let mut server = choice.offset % SERVERS;
        if avoided == Some(server) {
            server = (server + 1) % SERVERS;
        }
        host.last_server = Some(server);
        host.newest_conn += 1;
        let conn = ConnId(host.newest_conn);
        host.links.push(Link {
            attempt,
            server,
            conn,
            epoch: 0,
        });
        self.conns.insert(conn, Conn::new(server));
    }

    /// A handshake is over.
    pub fn stand(&mut self, conn: ConnId) {
        self.host.digest.note(("stands", conn));
        if let Some(link) = self.conns.get_mut(&conn) {
            link.stands = true;
        }
        if let Some(attempt) = self.attempt_of(conn) {
            let event = SessionEvent::Connected;
            self.feed(CoreEvent::Session { attempt, event });
        }
        self.turn_host();
    }

    fn attempt_of(&self, conn: ConnId) -> Option<Attempt> {
        let link = self.host.links.iter().find(|link| link.conn == conn);
        link.map(|link| link.attempt)
    }

    /// The node's end of a connection is dead: of silence, or because it never stood.
    pub fn node_loses(&mut self, conn: ConnId) {
        self.host.digest.note(("lost", conn));
        self.leave_conn(conn, "the connection is dead");
        self.turn_host();
    }

    fn leave_conn(&mut self, conn: ConnId, reason: &str) {
        if let Some(link) = self.conns.get_mut(&conn) {
            link.leave_node();
        }
        let attempt = self.attempt_of(conn);
        self.host.links.retain(|link| link.conn != conn);
        if let Some(attempt) = attempt {
            let reason = reason.to_owned();
            let event = SessionEvent::Disconnected {
                reason,
                ending: Ending::Otherwise,
            };
            self.feed(CoreEvent::Session { attempt, event });
        }
    }

    pub(super) fn drop_link(&mut self, attempt: Attempt) {
        let links = &mut self.host.links;
        let Some(place) = links.iter().position(|link| link.attempt == attempt) else {
            return;
        };
        let conn = links.remove(place).conn;
        self.quiet = false;
        if let Some(link) = self.conns.get_mut(&conn) {
            link.leave_node();
        }
    }

    fn say(&mut self, conn: ConnId, stream: Stream, message: ToServer) {
        self.host.sent += 1;
        let digest = self.host.digest.with(("sent", self.host.sent));
        if let Some(link) = self.conns.get_mut(&conn)
            && link.server_open
        {
            push(&mut link.to_server, stream, message, digest);
        }
    }

    pub(super) fn ask_for_watch(&mut self, attempt: Attempt, known: Option<Vec<(AllocId, u64)>>) {
        let link = self.host.links.iter().find(|link| link.attempt == attempt);
        if let Some(Link { conn, epoch, .. }) = link.copied() {
            self.say(conn, Stream::Watch, ToServer::OpenWatch { epoch, known });
        }
    }

    pub(super) fn send_message(&mut self, attempt: Attempt, message: SessionMessage) {
        let link = self.host.links.iter().find(|link| link.attempt == attempt);
        let Some(conn) = link.map(|link| link.conn) else {
            return;
        };
        let facts = Rc::clone(&self.host.facts);
        let (stream, message) = match message {
            SessionMessage::Heartbeat { epoch, .. } => {
                return self.heartbeat(attempt, conn, epoch.0);
            }
            // Events are no part of the model.
            SessionMessage::Detail { .. } => return,
            SessionMessage::Hello(hello) => {
                self.watch_hello(hello.watermark);
                let boot_id = self.host.boot_id();
                let facts = (hello.last_epoch.0 == 0).then_some(facts);
                let hello = ToServer::Hello {
                    hello,
                    boot_id,
                    facts,
                };
                (Stream::Session, hello)
            }
            SessionMessage::SyncPart(part) => {
                if self.mutant == Some(Mutant::EqualSyncDropped)
                    && self.host.last_sync.replace(part.reports.clone()).as_ref()
                        == Some(&part.reports)
                {
                    return;
                }
                self.watch_report(part.epoch.0);
                let facts = part.with_facts.then_some(facts);
                (Stream::Session, ToServer::SyncPart { part, facts })
            }
            // Where nothing waits to be accepted, its receipt changes nothing.
            SessionMessage::WatchAck { .. } => return,
            SessionMessage::StatusBatch(batch) => {
                let stream = match batch.class {
                    UpdateClass::Urgent => Stream::Urgent,
                    UpdateClass::Typical => Stream::Typical,
                };
                (stream, ToServer::Batch(batch))
            }
            SessionMessage::Facts { epoch } => {
                let epoch = epoch.0;
                (Stream::Session, ToServer::Facts { epoch, facts })
            }
        };
        self.say(conn, stream, message);
    }

    /// A heartbeat and its answer are one step, since nothing of what is looked at here can come
    /// between them: who is silent, the leader decides whenever it likes.
    fn heartbeat(&mut self, attempt: Attempt, conn: ConnId, epoch: u64) {
        let link = self.conns.get(&conn);
        let held = link.is_some_and(|link| {
            let session = self.servers[link.server].conns.get(&conn);
            link.server_open && session.is_some_and(|it| it.epoch.0 == epoch)
        });
        let answered = held && !self.quiet;
        self.host.digest.note(("heartbeat", answered));
        if answered {
            let event = SessionEvent::HeartbeatAck(HeartbeatAck {
                tick: 0,
                typical_interval: Duration::ZERO,
                confirmed_sent_nanos: 0,
                cut_off: false,
                pace: Duration::ZERO,
            });
            let event = CoreEvent::Session { attempt, event };
            self.host.local.push_back(event);
        }
    }

    /// A message of a server arrives.
    pub fn on_to_node(&mut self, conn: ConnId, stream: Stream) {
        let Some(link) = self.conns.get_mut(&conn) else {
            return;
        };
        let Some(sent) = pop(&mut link.to_node, stream) else {
            return;
        };
        self.host.digest.note((conn, sent.digest));
        let Some(attempt) = self.attempt_of(conn) else {
            return;
        };
        let event = match &*sent.message {
            ToNode::Welcome(welcome) => {
                let epoch = welcome.epoch.0;
                let links = self.host.links.iter_mut();
                links
                    .filter(|it| it.conn == conn)
                    .for_each(|it| it.epoch = epoch);
                SessionEvent::Welcome(welcome.clone())
            }
            ToNode::Refused(reason) => SessionEvent::Refused(Refused {
                reason: *reason,
                message: String::new(),
                retry_interval: Duration::from_millis(500),
                servers: 0,
            }),
            ToNode::SyncAck { epoch, index } => SessionEvent::SyncAck {
                epoch: SessionEpoch(*epoch),
                index: *index,
            },
            ToNode::FactsAck { epoch } => SessionEvent::FactsAck {
                epoch: SessionEpoch(*epoch),
            },
            ToNode::BatchAck(ack) => SessionEvent::BatchAck(ack.clone()),
            ToNode::Map(map) => {
                let mut map = map.clone();
                if self.mutant == Some(Mutant::StaleAnswer)
                    && let Some(core) = &self.host.core
                {
                    map.at.index = map.at.index.max(core.watermark().index);
                }
                SessionEvent::WatchMap(map)
            }
            ToNode::Delta(delta) => SessionEvent::WatchDelta(delta.clone()),
            ToNode::Ended => {
                self.leave_conn(conn, "the server ended a stream");
                return self.turn_host();
            }
        };
        self.feed(CoreEvent::Session { attempt, event });
        self.turn_host();
    }
}
