//! Connections and what is on its way on them. The order within a stream is kept and nothing in it
//! is doubled or left out, which is QUIC's promise; streams and connections do not wait for each
//! other. A message that is never handed over is one that is late, so a cut is nothing of its own:
//! what a cut leads to is that an end gives the connection up, which it may do at any time.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use noded_core::effect::{Hello, StatusBatch, SyncPart};
use noded_core::event::{BatchAck, RefusedReason, WatchDelta, WatchMap, Welcome};
use protocol_model::{AllocId, Node};

use crate::digest::Digest;

/// A connection. The node counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// A server, by its offset.
pub(crate) type ServerIx = usize;
/// How many there are.
pub(crate) const SERVERS: usize = 2;

/// What keeps an order of its own within a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream {
    /// Hello, sync, facts, acknowledgements.
    Session,
    /// Desired state.
    Watch,
    /// Urgent updates.
    Urgent,
    /// Typical updates.
    Typical,
}

/// From the node to a server.
#[derive(Clone, Debug)]
pub enum ToServer {
    Hello {
        hello: Hello,
        boot_id: [u8; 16],
        facts: Option<Rc<Node>>,
    },
    SyncPart {
        part: SyncPart,
        facts: Option<Rc<Node>>,
    },
    OpenWatch {
        epoch: u64,
        known: Option<Vec<(AllocId, u64)>>,
    },
    Facts {
        epoch: u64,
        facts: Rc<Node>,
    },
    Batch(StatusBatch),
}

/// From a server to the node.
#[derive(Clone, Debug)]
pub enum ToNode {
    Welcome(Welcome),
    Refused(RefusedReason),
    SyncAck {
        epoch: u64,
        index: u64,
    },
    FactsAck {
        epoch: u64,
    },
    BatchAck(BatchAck),
    Map(WatchMap),
    Delta(WatchDelta),
    /// The server ended a stream: the whole connection is not worth keeping.
    Ended,
}

/// A message and where it came about.
#[derive(Clone, Debug)]
pub struct Sent<M> {
    pub message: Rc<M>,
    pub digest: Digest,
}

/// What is on its way in one direction.
pub(crate) type Queues<M> = BTreeMap<Stream, VecDeque<Sent<M>>>;

/// A connection with both its ends.
#[derive(Clone, Debug)]
pub struct Conn {
    pub server: ServerIx,
    /// Whether the handshake is over.
    pub stands: bool,
    pub node_open: bool,
    pub server_open: bool,
    pub to_server: Queues<ToServer>,
    pub to_node: Queues<ToNode>,
}

impl Conn {
    pub fn new(server: ServerIx) -> Self {
        Self {
            server,
            stands: false,
            node_open: true,
            server_open: true,
            to_server: Queues::new(),
            to_node: Queues::new(),
        }
    }

    /// The node's end is gone: nobody reads what comes.
    pub fn leave_node(&mut self) {
        self.node_open = false;
        self.to_node.clear();
    }

    /// The server's end is gone.
    pub fn leave_server(&mut self) {
        self.server_open = false;
        self.to_server.clear();
    }

    pub fn digest(&self) -> Digest {
        let all = |queue: &VecDeque<Sent<ToServer>>| -> Vec<Digest> {
            queue.iter().map(|sent| sent.digest).collect()
        };
        let up: Vec<_> = self
            .to_server
            .iter()
            .map(|(at, it)| (*at, all(it)))
            .collect();
        let down: Vec<(Stream, Vec<Digest>)> = self
            .to_node
            .iter()
            .map(|(at, it)| (*at, it.iter().map(|sent| sent.digest).collect()))
            .collect();
        Digest::default().with((self.stands, self.node_open, self.server_open, up, down))
    }
}

/// Puts a message at the end of its stream.
pub(crate) fn push<M>(queues: &mut Queues<M>, stream: Stream, message: M, digest: Digest) {
    let message = Rc::new(message);
    queues
        .entry(stream)
        .or_default()
        .push_back(Sent { message, digest });
}

/// Takes the next message of a stream.
pub(crate) fn pop<M>(queues: &mut Queues<M>, stream: Stream) -> Option<Sent<M>> {
    let queue = queues.get_mut(&stream)?;
    let next = queue.pop_front();
    if queue.is_empty() {
        queues.remove(&stream);
    }
    next
}
