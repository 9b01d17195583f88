//! The network: QUIC as far as it matters. A stream is reliable and ordered, streams of a
//! connection overtake each other, loss is delay, and a cut holds back what was sent until it heals
//! or the connection dies of silence. Heartbeats and their answers travel alone, as datagrams: what
//! is lost is lost, and delays no other.
//!
//! ```text
//!   send --cut?--> stalled --heals--> delay --> arrives, in the order of its stream
//!         \--------------------------> delay ----^
//! ```

mod weather;

use std::collections::VecDeque;

use crate::event::{Event, NodeIx, ServerIx, ToNode, ToServer};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};
pub use weather::Weather;

/// How long a connection lives in silence (as the transport's default).
pub const IDLE: Nanos = 12 * SECOND;

/// A connection, by its slot and how often the slot was used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConnId {
    pub slot: u32,
    pub use_number: u32,
}

/// The streams of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Stream {
    Session = 0,
    Urgent = 1,
    Typical = 2,
    Watch = 3,
}

/// The ends of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    Node,
    Server,
}

/// A connection of a node with a server.
#[derive(Debug)]
pub struct Conn {
    pub id: ConnId,
    pub node: NodeIx,
    pub node_life: u32,
    pub server: ServerIx,
    pub server_life: u32,
    /// Whether each end still keeps it: node, server.
    pub open: [bool; 2],
    /// When the newest message of each stream arrives, to the server and to the node.
    arrives: [[Nanos; 4]; 2],
    stalled: VecDeque<(Stream, Message)>,
}

#[derive(Debug)]
enum Message {
    ToServer(ToServer),
    ToNode(ToNode),
}

/// All links and connections.
#[derive(Debug)]
pub struct Net {
    conns: Vec<Option<Conn>>,
    uses: Vec<u32>,
    free: Vec<u32>,
    /// Cuts of each link between a node and a server, by direction; counted, for faults overlap.
    cuts: Vec<[u8; 2]>,
    /// Cuts between servers.
    server_cuts: Vec<u8>,
    servers: usize,
    /// Between nodes and servers, and among servers.
    pub weather: Weather,
    pub between_servers: Weather,
    /// A planted bug: each heartbeat waits for those before it.
    pub heartbeats_in_order: bool,
    rng: Rng,
}

impl Net {
    /// Everyone reaches everyone.
    pub fn new(nodes: usize, servers: usize, rng: Rng) -> Self {
        Self {
            conns: Vec::new(),
            uses: Vec::new(),
            free: Vec::new(),
            cuts: vec![[0; 2]; nodes * servers],
            server_cuts: vec![0; servers * servers],
            servers,
            weather: Weather::CALM,
            between_servers: Weather::CALM,
            heartbeats_in_order: false,
            rng,
        }
    }

    fn link(&self, node: NodeIx, server: ServerIx) -> usize {
        node as usize * self.servers + usize::from(server)
    }

    /// Whether messages towards `to` get through.
    pub fn passes(&self, node: NodeIx, server: ServerIx, to: Side) -> bool {
        self.cuts[self.link(node, server)][to as usize] == 0
    }

    /// Whether two servers reach each other.
    pub fn servers_reach(&self, one: ServerIx, other: ServerIx) -> bool {
        one == other
            || self.server_cuts[usize::from(one) * self.servers + usize::from(other)] == 0
                && self.server_cuts[usize::from(other) * self.servers + usize::from(one)] == 0
    }

    /// Cuts a direction of a link once more.
    pub fn cut(&mut self, node: NodeIx, server: ServerIx, to: Side) {
        let link = self.link(node, server);
        self.cuts[link][to as usize] += 1;
    }

    /// Takes one cut of a direction back.
    pub fn heal(&mut self, node: NodeIx, server: ServerIx, to: Side) {
        let link = self.link(node, server);
        let cuts = &mut self.cuts[link][to as usize];
        *cuts = cuts.saturating_sub(1);
    }

    /// Cuts two servers apart once more.
    pub fn cut_servers(&mut self, one: ServerIx, other: ServerIx) {
        self.server_cuts[usize::from(one) * self.servers + usize::from(other)] += 1;
    }

    /// Takes one cut between servers back.
    pub fn heal_servers(&mut self, one: ServerIx, other: ServerIx) {
        let cuts = &mut self.server_cuts[usize::from(one) * self.servers + usize::from(other)];
        *cuts = cuts.saturating_sub(1);
    }

    /// The time that a message between a node and a server takes, its retransmissions included.
    pub fn delay(&mut self) -> Nanos {
        self.weather.delay(&mut self.rng)
    }

    /// The same among servers.
    pub fn server_delay(&mut self) -> Nanos {
        self.between_servers.delay(&mut self.rng)
    }

    /// A new connection.
    pub fn open(&mut self, node: (NodeIx, u32), server: (ServerIx, u32)) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.uses.push(0);
            u32::try_from(self.conns.len() - 1).unwrap_or(u32::MAX)
        });
        self.uses[slot as usize] += 1;
        let use_number = self.uses[slot as usize];
        let id = ConnId { slot, use_number };
        self.conns[slot as usize] = Some(Conn {
            id,
            node: node.0,
            node_life: node.1,
            server: server.0,
            server_life: server.1,
            open: [true, true],
            arrives: [[0; 4]; 2],
            stalled: VecDeque::new(),
        });
        id
    }

    /// A connection that at least one end keeps.
    pub fn conn(&self, id: ConnId) -> Option<&Conn> {
        let conn = self.conns.get(id.slot as usize)?.as_ref()?;
        (conn.id == id).then_some(conn)
    }

    /// Connections that satisfy a condition.
    pub fn conns_where(&self, keep: impl Fn(&Conn) -> bool) -> Vec<ConnId> {
        let conns = self.conns.iter().flatten();
        conns.filter(|it| keep(it)).map(|it| it.id).collect()
    }

    /// One end keeps the connection no longer.
    pub fn leave(&mut self, id: ConnId, side: Side) {
        let Some(Some(conn)) = self.conns.get_mut(id.slot as usize) else {
            return;
        };
        if conn.id != id {
            return;
        }
        conn.open[side as usize] = false;
        if conn.open == [false, false] {
            self.conns[id.slot as usize] = None;
            self.free.push(id.slot);
        }
    }

    /// Sends to the server of a connection; `extra` is what a slow server adds.
    pub fn to_server(
        &mut self,
        id: ConnId,
        stream: Stream,
        message: ToServer,
        extra: Nanos,
        now: Nanos,
    ) -> Option<(Nanos, Event)> {
        if matches!(message, ToServer::Heartbeat { .. }) && !self.heartbeats_in_order {
            let at = self.arrives_alone(id, Side::Server, extra, now)?;
            let conn = id;
            return Some((
                at,
                Event::ToServer {
                    conn,
                    stream,
                    message,
                },
            ));
        }
        let delay = self.delay() + extra;
        let conn = self.conn(id)?;
        let passes = self.passes(conn.node, conn.server, Side::Server);
        let conn = self.conns[id.slot as usize].as_mut()?;
        if !passes {
            let message = Message::ToServer(message);
            conn.stalled.push_back((stream, message));
            return None;
        }
        let at = in_order(&mut conn.arrives[1][stream as usize], now + delay);
        let conn = id;
        Some((
            at,
            Event::ToServer {
                conn,
                stream,
                message,
            },
        ))
    }

    /// When a datagram arrives, unless it is lost.
    fn arrives_alone(&mut self, id: ConnId, to: Side, extra: Nanos, now: Nanos) -> Option<Nanos> {
        let Weather { loss, base, jitter } = self.weather;
        let at = now + base + self.rng.below(jitter) + extra;
        let lost = loss > 0 && self.rng.chance(loss);
        let conn = self.conn(id)?;
        (!lost && self.passes(conn.node, conn.server, to)).then_some(at)
    }

    /// Sends to the node of a connection.
    pub fn to_node(
        &mut self,
        id: ConnId,
        stream: Stream,
        message: ToNode,
        now: Nanos,
    ) -> Option<(Nanos, Event)> {
        if matches!(message, ToNode::HeartbeatAck { .. }) && !self.heartbeats_in_order {
            let at = self.arrives_alone(id, Side::Node, 0, now)?;
            return Some((at, Event::ToNode { conn: id, message }));
        }
        let delay = self.delay();
        let conn = self.conn(id)?;
        let passes = self.passes(conn.node, conn.server, Side::Node);
        let conn = self.conns[id.slot as usize].as_mut()?;
        if !passes {
            conn.stalled.push_back((stream, Message::ToNode(message)));
            return None;
        }
        let at = in_order(&mut conn.arrives[0][stream as usize], now + delay);
        Some((at, Event::ToNode { conn: id, message }))
    }

    /// Sends again what a cut held back, where it does not hold it back any more. `waited` is how
    /// long the cut was: timers of retransmissions have grown with it.
    pub fn flush(&mut self, id: ConnId, waited: Nanos, now: Nanos) -> Vec<(Nanos, Event)> {
        let Some(conn) = self.conn(id) else {
            return Vec::new();
        };
        let to_server = self.passes(conn.node, conn.server, Side::Server);
        let to_node = self.passes(conn.node, conn.server, Side::Node);
        let later = self.rng.below((waited / 2).clamp(MILLI, 2 * SECOND));
        let Some(conn) = self.conns[id.slot as usize].as_mut() else {
            return Vec::new();
        };
        let mut sent = Vec::new();
        for (stream, message) in std::mem::take(&mut conn.stalled) {
            match message {
                Message::ToServer(message) if to_server => {
                    let at = in_order(&mut conn.arrives[1][stream as usize], now + later);
                    let conn = id;
                    let event = Event::ToServer {
                        conn,
                        stream,
                        message,
                    };
                    sent.push((at, event));
                }
                Message::ToNode(message) if to_node => {
                    let at = in_order(&mut conn.arrives[0][stream as usize], now + later);
                    sent.push((at, Event::ToNode { conn: id, message }));
                }
                held => conn.stalled.push_back((stream, held)),
            }
        }
        sent
    }
}

/// When a message arrives that may not overtake those before it.
fn in_order(newest: &mut Nanos, at: Nanos) -> Nanos {
    *newest = at.max(*newest + 1);
    *newest
}
