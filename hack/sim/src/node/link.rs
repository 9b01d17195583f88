//! A node's connections, and what it says on them: the daemon's `session.rs`.

use noded_core::Event as CoreEvent;
use noded_core::effect::{
    DisconnectReason, Hello, ServerChoice, SessionMessage, UpdateClass, Wish as NodeWish,
};
use noded_core::event::{Ending, Refused, SessionEvent};
use noded_core::key::{Attempt, SessionEpoch};
use protocol_model::{AllocId, DaemonLife};
use protocol_transport::door::{Wish, WishKind};
use std::sync::Arc;
use std::time::Duration;

use super::Link;
use crate::event::{
    HelloMessage, NodeInput, NodeIx, ServerEvent, ServerIx, SyncMessage, ToNode, ToServer,
};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::net::{ConnId, Side, Stream};
use crate::server::entrance::Guest;
use crate::time::nanos;
use crate::world::World;

impl World {
    pub(super) fn connect(&mut self, ix: NodeIx, attempt: Attempt, choice: ServerChoice) {
        if !choice.standby {
            while let Some(link) = self.nodes[ix as usize].links.first().copied() {
                self.drop_link(ix, link.attempt);
            }
        }
        let servers = self.servers.len();
        let node = &mut self.nodes[ix as usize];
        let apart_from = choice.apart_from.and_then(|attempt| node.link(attempt));
        let apart_from = apart_from.map(|link| link.server);
        // The server that was left last is not the next.
        let avoided = apart_from.or(node.last_server);
        let offset = choice.offset;
        let mut chosen = u8::try_from(offset % servers).unwrap_or(0);
        if avoided == Some(chosen) {
            chosen = u8::try_from((offset + 1) % servers).unwrap_or(0);
        }
        let role = if choice.standby { "standby" } else { "session" };
        self.note(|| format!("n{ix} connects to s{chosen}: {role}"));
        let node = &mut self.nodes[ix as usize];
        node.links.push(Link {
            attempt,
            server: chosen,
            conn: None,
            dialing: None,
            epoch: 0,
        });
        let nobody = choice.standby && self.mutant == Some(Mutant::NobodyStandsBy);
        let stands = !nobody
            && apart_from != Some(chosen)
            && self.servers[usize::from(chosen)].runs()
            && self.net.passes(ix, chosen, Side::Server)
            && self.net.passes(ix, chosen, Side::Node);
        if self.cpus.is_some() {
            return self.dial(ix, attempt, stands.then_some(chosen), choice.wish);
        }
        // A round trip and a half, when both ends and the way between them are well.
        let takes = self.net.delay() + self.net.delay() + self.net.delay();
        let patience = nanos(choice.wish.patience);
        if stands && takes < patience {
            let (life, server_life) = (
                self.nodes[ix as usize].life,
                self.servers[usize::from(chosen)].life,
            );
            let conn = self.net.open((ix, life), (chosen, server_life));
            let takes = takes + self.servers[usize::from(chosen)].extra;
            let conn = Some(conn);
            self.node_input(ix, takes, NodeInput::Connection { attempt, conn });
        } else {
            let conn = None;
            self.node_input(ix, patience, NodeInput::Connection { attempt, conn });
        }
    }

    /// Sends a first packet, and waits for the first sign of the server as long as the node's
    /// patience lasts.
    fn dial(&mut self, ix: NodeIx, attempt: Attempt, server: Option<ServerIx>, wish: NodeWish) {
        let (kind, patience) = (kind_of(wish), self.bend_patience(wish.patience));
        if let Some(server) = server {
            let life = self.nodes[ix as usize].life;
            let server_life = self.servers[usize::from(server)].life;
            let conn = self.net.open((ix, life), (server, server_life));
            let node = &mut self.nodes[ix as usize];
            if let Some(link) = node.links.iter_mut().find(|it| it.attempt == attempt) {
                link.dialing = Some(conn);
            }
            let guest = Guest {
                conn,
                node: ix,
                attempt,
                kind,
                wanted: self.now.saturating_sub(nanos(wish.waited)),
            };
            let wish = Wish {
                kind,
                waited: in_units(wish.waited),
                patience: in_units(patience),
            };
            let takes = self.net.delay();
            self.server_event(server, takes, ServerEvent::Arrival { guest, wish });
        }
        let conn = None;
        let wait = nanos(patience);
        self.node_input(ix, wait, NodeInput::Connection { attempt, conn });
    }

    pub(super) fn on_connection(&mut self, ix: NodeIx, attempt: Attempt, conn: Option<ConnId>) {
        let node = &mut self.nodes[ix as usize];
        let current = node.links.iter_mut().find(|link| link.attempt == attempt);
        match (current, conn) {
            (Some(link), Some(conn)) => {
                let gone = self
                    .net
                    .conn(conn)
                    .is_none_or(|it| !it.open[Side::Server as usize]);
                (link.conn, link.dialing) = (Some(conn), None);
                let event = if gone {
                    let reason = "reset".to_owned();
                    SessionEvent::Disconnected {
                        reason,
                        ending: Ending::Otherwise,
                    }
                } else {
                    SessionEvent::Connected
                };
                self.feed(ix, CoreEvent::Session { attempt, event });
            }
            // Its patience was for the first sign of the server.
            (Some(link), None) if link.conn.is_some() => {}
            (Some(_), None) => {
                self.drop_link(ix, attempt);
                let event = SessionEvent::Disconnected {
                    reason: "no connection in time".to_owned(),
                    ending: Ending::Silence,
                };
                self.feed(ix, CoreEvent::Session { attempt, event });
            }
            (None, Some(conn)) => {
                // Nobody wants it any more.
                self.close_from_node(conn);
            }
            (None, None) => {}
        }
    }

    fn drop_link(&mut self, ix: NodeIx, attempt: Attempt) {
        let node = &mut self.nodes[ix as usize];
        let link = node.link(attempt);
        node.last_server = link.map(|link| link.server).or(node.last_server);
        node.links.retain(|link| link.attempt != attempt);
        if let Some(conn) = link.and_then(|link| link.conn) {
            self.close_from_node(conn);
        }
        if let Some(conn) = link.and_then(|link| link.dialing) {
            // The server sees it when it has done its part of the handshake.
            self.net.leave(conn, Side::Node);
            self.idle_later(conn, self.now);
        }
    }

    fn close_from_node(&mut self, conn: ConnId) {
        self.send_to_server(conn, Stream::Session, ToServer::Closed);
        self.net.leave(conn, Side::Node);
        let now = self.now;
        self.idle_later(conn, now);
    }

    pub(super) fn leave_server(&mut self, ix: NodeIx, attempt: Attempt, reason: &DisconnectReason) {
        self.note(|| format!("n{ix} leaves its server: {reason}"));
        self.counts.disconnects += 1;
        if matches!(reason, DisconnectReason::WatchBroken { .. }) {
            self.counts.watches_broken += 1;
        }
        self.drop_link(ix, attempt);
    }

    fn conn_of(&self, ix: NodeIx, attempt: Attempt) -> Option<ConnId> {
        self.nodes[ix as usize].link(attempt)?.conn
    }

    pub(super) fn ask_for_watch(
        &mut self,
        ix: NodeIx,
        attempt: Attempt,
        known: Option<Vec<(AllocId, u64)>>,
    ) {
        let Some(link) = self.nodes[ix as usize].link(attempt) else {
            return;
        };
        if let Some(conn) = link.conn {
            let epoch = link.epoch;
            let known = known.map(|known| known.into_iter().collect());
            let message = ToServer::OpenWatch { epoch, known };
            self.send_to_server(conn, Stream::Watch, message);
        }
    }

    pub(super) fn send_message(&mut self, ix: NodeIx, attempt: Attempt, message: SessionMessage) {
        let Some(conn) = self.conn_of(ix, attempt) else {
            return;
        };
        let node = &mut self.nodes[ix as usize];
        let (stream, message) = match message {
            SessionMessage::Heartbeat { epoch, tick, sent } => {
                self.counts.heartbeats += 1;
                let (epoch, sent) = (epoch.0, sent.as_nanos());
                let message = ToServer::Heartbeat { epoch, tick, sent };
                (Stream::Session, message)
            }
            SessionMessage::Hello(hello) => {
                let message = self.knock(ix, hello);
                (Stream::Session, ToServer::Hello(message))
            }
            // Events are not modelled: no invariant is about them.
            SessionMessage::Detail { .. } => return,
            SessionMessage::SyncPart(part) => {
                let equal = part.last && node.last_sync.as_ref() == Some(&part.reports);
                if self.mutant == Some(Mutant::EqualSyncDropped) && equal {
                    return;
                }
                if self.mutant == Some(Mutant::OwedForEver) && part.epoch.0.is_multiple_of(3) {
                    return;
                }
                node.last_sync = Some(part.reports.clone());
                self.observe(Observation::SyncSent {
                    node: ix,
                    epoch: part.epoch.0,
                    reports: &part.reports,
                });
                let node = &self.nodes[ix as usize];
                let facts = part.with_facts.then(|| Arc::clone(&node.facts));
                let message = Box::new(SyncMessage { part, facts });
                (Stream::Session, ToServer::SyncPart(message))
            }
            SessionMessage::WatchAck { epoch, index } => {
                let epoch = epoch.0;
                self.observe(Observation::WatchAcked { node: ix, index });
                (Stream::Session, ToServer::WatchAck { epoch, index })
            }
            SessionMessage::StatusBatch(batch) => {
                let stream = match batch.class {
                    UpdateClass::Urgent => Stream::Urgent,
                    UpdateClass::Typical => Stream::Typical,
                };
                self.observe(Observation::BatchSent {
                    node: ix,
                    batch: &batch,
                });
                (stream, ToServer::Batch(Box::new(batch)))
            }
            SessionMessage::Facts { epoch } => {
                let (epoch, facts) = (epoch.0, Arc::clone(&node.facts));
                (Stream::Session, ToServer::Facts { epoch, facts })
            }
        };
        self.send_to_server(conn, stream, message);
    }

    /// A Hello, with what the daemon adds.
    fn knock(&mut self, ix: NodeIx, mut hello: Hello) -> Box<HelloMessage> {
        let (series, watermark) = (hello.nonce, hello.watermark);
        if self.mutant == Some(Mutant::NoncePerAttempt) {
            hello.nonce = self.rng.bytes();
        }
        if self.mutant == Some(Mutant::RestartUntold) {
            hello.daemon = DaemonLife::Continued;
        }
        let nonce = hello.nonce;
        self.observe(Observation::HelloSent {
            node: ix,
            watermark,
            series,
            nonce,
        });
        let node = &self.nodes[ix as usize];
        let facts = (hello.last_epoch.0 == 0).then(|| Arc::clone(&node.facts));
        let boot_id = node.boot_id(ix);
        Box::new(HelloMessage {
            hello,
            boot_id,
            facts,
        })
    }

    /// A message of a server.
    pub(crate) fn on_to_node(&mut self, conn: ConnId, message: ToNode) {
        let Some(it) = self.net.conn(conn) else {
            return;
        };
        let (ix, life, server) = (it.node, it.node_life, it.server);
        let node = &mut self.nodes[ix as usize];
        if node.life != life || node.core.is_none() {
            return;
        }
        let link = node.links.iter_mut().find(|it| it.conn == Some(conn));
        let Some(link) = link else {
            return;
        };
        let attempt = link.attempt;
        let event = match message {
            ToNode::HeartbeatAck {
                tick,
                confirmed,
                cut_off,
                pace,
            } => SessionEvent::HeartbeatAck(noded_core::event::HeartbeatAck {
                tick,
                typical_interval: Duration::ZERO,
                confirmed_sent_nanos: confirmed,
                cut_off,
                pace,
            }),
            ToNode::Welcome(welcome) => {
                link.epoch = welcome.epoch.0;
                let (epoch, resumed) = (welcome.epoch.0, welcome.resumed);
                self.note(|| format!("n{ix} is welcome at s{server}: {epoch} {resumed}"));
                self.note_in_touch(ix);
                if self.mutant == Some(Mutant::WatchBeforeSync) && !resumed {
                    let message = ToServer::OpenWatch { epoch, known: None };
                    self.send_to_server(conn, Stream::Watch, message);
                }
                SessionEvent::Welcome(*welcome)
            }
            ToNode::Refused(reason) => SessionEvent::Refused(Refused {
                reason,
                message: String::new(),
                retry_interval: self.retry_interval(),
                servers: 0,
            }),
            ToNode::SyncAck { epoch, index } => SessionEvent::SyncAck {
                epoch: SessionEpoch(epoch),
                index,
            },
            ToNode::FactsAck { epoch } => SessionEvent::FactsAck {
                epoch: SessionEpoch(epoch),
            },
            ToNode::BatchAck(ack) => SessionEvent::BatchAck(*ack),
            ToNode::Map(map) => {
                let node = &mut self.nodes[ix as usize];
                node.told = true;
                node.told_in = node.boot;
                SessionEvent::WatchMap(self.bend_map(ix, *map))
            }
            ToNode::Delta(delta) => SessionEvent::WatchDelta(*delta),
            ToNode::Busy => return,
            ToNode::Ended => {
                self.nodes[ix as usize].forget_link(conn);
                self.net.leave(conn, Side::Node);
                SessionEvent::Disconnected {
                    reason: "the server ended a stream".to_owned(),
                    ending: Ending::Otherwise,
                }
            }
        };
        self.feed(ix, CoreEvent::Session { attempt, event });
        self.drain(ix);
    }

    /// The server that an attempt went to has no time for it.
    pub(crate) fn on_busy(&mut self, conn: ConnId) {
        let Some(ix) = self.net.conn(conn).map(|it| it.node) else {
            return;
        };
        self.net.leave(conn, Side::Node);
        let links = &mut self.nodes[ix as usize].links;
        let Some(place) = links.iter().position(|it| it.dialing == Some(conn)) else {
            return;
        };
        let attempt = links.remove(place).attempt;
        let event = SessionEvent::Disconnected {
            reason: "the server is busy".to_owned(),
            ending: self.bend_ending(Ending::Busy),
        };
        self.feed(ix, CoreEvent::Session { attempt, event });
        self.drain(ix);
    }

    /// A connection is dead: of silence, or because the server does not know it.
    pub(crate) fn lose_link(&mut self, conn: ConnId) {
        let Some(it) = self.net.conn(conn) else {
            return;
        };
        let (ix, life) = (it.node, it.node_life);
        self.net.leave(conn, Side::Node);
        let node = &mut self.nodes[ix as usize];
        if node.life != life {
            return;
        }
        let Some(attempt) = node.forget_link(conn) else {
            return;
        };
        let reason = "the connection is dead".to_owned();
        let event = SessionEvent::Disconnected {
            reason,
            ending: Ending::Otherwise,
        };
        self.feed(ix, CoreEvent::Session { attempt, event });
        self.drain(ix);
    }
}

/// The kind of wish that the server of a connection reads (as the daemon's `session/mod.rs`).
fn kind_of(wish: NodeWish) -> WishKind {
    match wish.urgent {
        true => WishKind::Session,
        false => WishKind::Standby,
    }
}

/// A time as a first packet tells it.
fn in_units(span: Duration) -> Duration {
    let unit = Duration::from_millis(100);
    let units = u32::try_from(span.as_millis() / unit.as_millis()).unwrap_or(u32::MAX);
    unit.saturating_mul(units.min(u32::from(u16::MAX)))
}
