//! One attempt at a session: the connections and streams that carry what the core says and hears.
//!
//! ```text
//!   connection 1   NodeSession  Hello, heartbeats, sync  <->  Welcome, acks
//!                  NodeUpdates  one per class: batch      ->  its acknowledgement
//!                  NodeWatch    StreamHello               ->  map, deltas   (when the core asks)
//!                  NodeQuery    one per question, once live: see crate::queries
//!                  nothing, while it stands by for another one
//!   connection 2   Bulk         AttachBulk; then the server opens NodeCall streams
//!                  only after the server's CallsWanted on the session's stream (protocol 2)
//!   connection 3   TaskApi      AttachBulk; then requests of tasks (protocol 3; `task_api`)
//! ```
//!
//! A failure of connection 1 or of a stream on it ends the attempt as a whole, and the core decides
//! when and where to try next. When connection 2 ends, it is made again at the next CallsWanted.

mod alone;
mod bulk;
mod control;
mod convert;
mod dial;
mod early;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures::future::BoxFuture;
use noded_core::effect::{SessionMessage, UpdateClass};
use noded_core::event::{Ending, SessionEvent};
use noded_core::key::{Attempt, SessionEpoch};
use parking_lot::Mutex;
use protocol_error_chain::chain;
use protocol_model::{AllocId, Node};
use protocol_transport::door::Wish;
use protocol_transport::{
    ConnectError, DETAIL_PRIORITY, Dialed, FrameReader, FrameWriter, Secret, StreamKind,
    URGENT_PRIORITY, is_refusal,
};
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use protocol_wire::report::AllocReport;
use protocol_wire::v1;
use tokio::sync::mpsc;

use self::dial::Broken;
pub use self::dial::Target;
pub(crate) use self::dial::connect;
use crate::identity::NodeIdentity;
use crate::input::Input;
use crate::queries::{LiveSession, Queries, SessionGuard};

/// The largest frame between a node and a server.
pub const NODE_FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a server reads of a session in one frame: parts of a report are a quarter of it, and the
/// facts of a node a fraction.
const SESSION_FRAME_BYTES_MAX: usize = 1024 * 1024;

fn written_max(kind: StreamKind) -> usize {
    match kind {
        StreamKind::NodeSession => SESSION_FRAME_BYTES_MAX,
        _ => NODE_FRAME_BYTES_MAX,
    }
}
/// Messages that wait for the session's stream; a full queue means that the server does not read.
const OUTBOUND_MAX: usize = 1024;
/// Batches of one class that wait; the core has at most one in flight.
const BATCHES_MAX: usize = 4;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The session itself: an attempt begins with it.
    Session,
    /// To have one when the session's ends.
    Standby,
    /// Calls of the server, beside a session.
    Calls,
    /// Requests of tasks to the server, beside a session.
    Tasks,
}

/// What a session needs of the process around it: noded, or one that simulates many nodes.
pub trait Outside: std::fmt::Debug + Send + Sync {
    /// A connection to the server at `address`, which is told the wish: for a session it may be one
    /// whose handshake is still under way.
    fn connect(
        &self,
        address: SocketAddr,
        purpose: Purpose,
        wish: Wish,
    ) -> BoxFuture<'_, Result<Dialed, ConnectError>>;

    /// What a control plane that does not know us wants to see, as it is now.
    fn join_token(&self) -> Option<Secret>;

    /// Serves a call: a stream that the server opened.
    fn accept_call(&self, send: quinn::SendStream, recv: quinn::RecvStream);
}

/// What every attempt needs.
#[derive(Debug)]
pub struct SessionContext {
    /// Who connects, and who answers calls.
    pub outside: Arc<dyn Outside>,
    /// Who we are.
    pub identity: NodeIdentity,
    /// This boot of the host.
    pub boot_id: [u8; 16],
    /// What we say about ourselves.
    pub facts: Mutex<Arc<Node>>,
    /// Where everything that happens goes.
    pub inputs: mpsc::Sender<Input>,
    /// The questions of the node to the server of its session.
    pub queries: Arc<Queries>,
}

/// An attempt that goes on. Dropping it ends its connections.
#[derive(Debug)]
pub struct Link {
    attempt: Attempt,
    outbound: mpsc::Sender<Outbound>,
    task: tokio::task::JoinHandle<()>,
}

/// What the core wants of an attempt.
#[derive(Debug)]
pub enum Outbound {
    /// Send this.
    Message(SessionMessage),
    /// The session is live: ask for the watch.
    OpenWatch {
        /// What need not be told on it.
        known: Option<Vec<(AllocId, u64)>>,
    },
}

/// The session cannot keep up with what it should send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{OUTBOUND_MAX} messages wait for a server that does not read")]
pub struct OutboundFull;

impl Link {
    /// Begins an attempt to reach the server at `address`.
    pub fn start(
        context: &Arc<SessionContext>,
        attempt: Attempt,
        address: String,
        target: Target,
    ) -> Self {
        let (outbound, messages) = mpsc::channel(OUTBOUND_MAX);
        let context = Arc::clone(context);
        let task = tokio::spawn(attend(context, attempt, address, target, messages));
        Self {
            attempt,
            outbound,
            task,
        }
    }

    /// Which attempt it is.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Sends a message. One for a connection that is gone is dropped: its end is on its way.
    ///
    /// # Errors
    /// Where the queue is full.
    pub fn send(&self, message: Outbound) -> Result<(), OutboundFull> {
        match self.outbound.try_send(message) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(OutboundFull),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn attend(
    context: Arc<SessionContext>,
    attempt: Attempt,
    address: String,
    target: Target,
    messages: mpsc::Receiver<Outbound>,
) {
    let broken = match run(&context, attempt, &address, target, messages).await {
        Ok(()) => Broken::from("the session ended".to_owned()),
        Err(broken) => broken,
    };
    let Broken { reason, ending } = broken;
    tracing::info!(%address, %reason, "connection attempt or session ended");
    let ended = Input::Session {
        attempt,
        event: SessionEvent::Disconnected { reason, ending },
        servers: Vec::new(),
    };
    // A loop that ended no longer wants to know.
    let _ = context.inputs.send(ended).await;
}

async fn run(
    context: &Arc<SessionContext>,
    attempt: Attempt,
    address: &str,
    target: Target,
    messages: mpsc::Receiver<Outbound>,
) -> Result<(), Broken> {
    let dialed = connect(context, address, target).await?;
    let connection = dialed.connection.clone();
    let ended = attempted(context, attempt, address, dialed, messages).await;
    ended.map_err(|reason| {
        let refused = connection
            .close_reason()
            .is_some_and(|why| is_refusal(&why));
        let ending = match refused {
            true => Ending::Busy,
            false => Ending::Otherwise,
        };
        Broken { reason, ending }
    })
}

async fn attempted(
    context: &Arc<SessionContext>,
    attempt: Attempt,
    address: &str,
    Dialed { connection, early }: Dialed,
    mut messages: mpsc::Receiver<Outbound>,
) -> Result<(), String> {
    let own = Own {
        context: Arc::clone(context),
        attempt,
        connection,
        address: address.to_owned(),
        epoch: Arc::new(AtomicU64::new(0)),
        calls: Arc::default(),
    };
    own.tell(SessionEvent::Connected, Vec::new()).await?;
    // A connection that stands by says nothing until it is needed.
    let first = tokio::select! {
        message = messages.recv() => message,
        reason = own.connection.closed() => return Err(reason.to_string()),
    };
    let Some(first) = first else {
        return Ok(());
    };
    let (writer, reader, first) = own.begin(first, early).await?;
    let (urgent, urgent_batches) = mpsc::channel(BATCHES_MAX);
    let (typical, typical_batches) = mpsc::channel(BATCHES_MAX);
    let outgoing = own.write(writer, first, messages, [urgent, typical]);
    let incoming = own.read(reader, [urgent_batches, typical_batches]);
    tokio::select! {
        ended = outgoing => ended,
        ended = incoming => ended,
        ended = own.hear_alone() => ended,
    }
}

pub(crate) async fn open(
    connection: &quinn::Connection,
    kind: StreamKind,
) -> Result<(FrameWriter, FrameReader), String> {
    let (mut send, recv) = connection
        .open_bi()
        .await
        .map_err(|error| error.to_string())?;
    kind.write(&mut send)
        .await
        .map_err(|error| error.to_string())?;
    Ok((
        FrameWriter::new(send, written_max(kind)),
        FrameReader::new(recv, NODE_FRAME_BYTES_MAX),
    ))
}

pub(crate) async fn write<M: FrameMessage>(
    writer: &mut FrameWriter,
    message: &M,
) -> Result<(), String> {
    let (kind, body) = to_frame(message);
    writer
        .write(kind, body)
        .await
        .map_err(|error| chain(&error))
}

pub(crate) fn parse<M: FrameMessage>(frame: protocol_transport::frame::Frame) -> Result<M, String> {
    from_frame(frame.kind, frame.body).map_err(|error| chain(&error))
}

/// One attempt, shared by its streams.
#[derive(Debug, Clone)]
struct Own {
    context: Arc<SessionContext>,
    attempt: Attempt,
    connection: quinn::Connection,
    address: String,
    /// The session that the server welcomed us to; 0 before.
    epoch: Arc<AtomicU64>,
    /// Whether the server wants the connection for calls.
    calls: Arc<bulk::CallsRequest>,
}

impl Own {
    async fn tell(&self, event: SessionEvent, servers: Vec<String>) -> Result<(), String> {
        let input = Input::Session {
            attempt: self.attempt,
            event,
            servers,
        };
        self.context
            .inputs
            .send(input)
            .await
            .map_err(|_| "noded ends".to_owned())
    }

    /// One class of updates: a batch, its acknowledgement, the next batch.
    async fn updates(
        self,
        class: UpdateClass,
        epoch: SessionEpoch,
        mut batches: mpsc::Receiver<v1::StatusBatch>,
    ) -> Result<(), String> {
        let (mut writer, mut reader) = open(&self.connection, StreamKind::NodeUpdates).await?;
        if class == UpdateClass::Urgent {
            writer.set_priority(URGENT_PRIORITY);
        }
        write(&mut writer, &self.stream_hello(epoch, class)).await?;
        while let Some(batch) = batches.recv().await {
            write(&mut writer, &batch).await?;
            let frame = reader.expect().await.map_err(|error| chain(&error))?;
            let ack = convert::batch_ack(&parse(frame)?)?;
            self.tell(SessionEvent::BatchAck(ack), Vec::new()).await?;
        }
        Err("no more batches".to_owned())
    }

    /// Events that this server was not told: nobody waits for them, so everything else goes first.
    async fn detail(self, epoch: SessionEpoch, parts: Vec<Vec<AllocReport>>) -> Result<(), String> {
        let (mut writer, _) = open(&self.connection, StreamKind::NodeUpdates).await?;
        writer.set_priority(DETAIL_PRIORITY);
        let hello = self.stream_hello(epoch, UpdateClass::Typical);
        write(&mut writer, &hello).await?;
        for reports in parts {
            write(&mut writer, &convert::detail(epoch, &reports)).await?;
        }
        writer.finish().map_err(|error| chain(&error))
    }

    async fn watch(
        self,
        epoch: SessionEpoch,
        known: Option<Vec<(AllocId, u64)>>,
    ) -> Result<(), String> {
        let (mut writer, mut reader) = open(&self.connection, StreamKind::NodeWatch).await?;
        let hello = v1::StreamHello {
            names_known: known.is_some(),
            ..self.stream_hello(epoch, UpdateClass::Urgent)
        };
        write(&mut writer, &hello).await?;
        if let Some(known) = known {
            write(&mut writer, &convert::watch_known(&known)).await?;
        }
        loop {
            let frame = reader
                .expect()
                .await
                .map_err(|error| format!("the watch: {}", chain(&error)))?;
            let event = match frame.kind {
                v1::WatchMap::KIND => SessionEvent::WatchMap(convert::watch_map(&parse(frame)?)?),
                v1::WatchDelta::KIND => {
                    SessionEvent::WatchDelta(convert::watch_delta(&parse(frame)?)?)
                }
                other => return Err(format!("frame kind {other} does not belong into a watch")),
            };
            self.tell(event, Vec::new()).await?;
        }
    }

    /// The session is live: the node's questions go to it until the guard is dropped.
    fn begin_queries(&self, epoch: SessionEpoch) -> SessionGuard {
        self.context.queries.begin(LiveSession {
            attempt: self.attempt,
            epoch,
            protocol: self.calls.protocol(),
            connection: self.connection.clone(),
            address: self.address.clone(),
        })
    }

    fn stream_hello(&self, epoch: SessionEpoch, class: UpdateClass) -> v1::StreamHello {
        v1::StreamHello {
            node_id: self.context.identity.id.as_bytes().to_vec().into(),
            epoch: epoch.0,
            class: convert::class(class).into(),
            names_known: false,
        }
    }

    fn hello(&self, hello: &noded_core::effect::Hello) -> Result<v1::Hello, String> {
        let context = &self.context;
        // A control plane that does not know us wants everything.
        let facts = if hello.last_epoch.0 == 0 {
            Some(self.facts()?)
        } else {
            None
        };
        let join_token = context.outside.join_token();
        Ok(v1::Hello {
            node_id: context.identity.id.as_bytes().to_vec().into(),
            secret: context.identity.secret.to_vec().into(),
            nonce: hello.nonce.to_vec().into(),
            last_epoch: hello.last_epoch.0,
            watermark: Some(convert::watermark(&hello.watermark)),
            protocol_min: protocol_wire::PROTOCOL_MIN,
            protocol_max: protocol_wire::PROTOCOL_MAX,
            daemon_restarted: hello.daemon.is_restarted(),
            join_token: join_token.map_or_else(String::new, |token| token.reveal().to_owned()),
            facts,
            boot_id: context.boot_id.to_vec().into(),
        })
    }

    fn facts(&self) -> Result<v1::NodeFacts, String> {
        let facts = self.context.facts.lock().clone();
        let json = serde_json::to_vec(&*facts).map_err(|error| error.to_string())?;
        Ok(v1::NodeFacts { json: json.into() })
    }
}
