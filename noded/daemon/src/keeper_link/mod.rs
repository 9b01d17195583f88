//! The connection to keeper: requests out, answers and events in, made anew whenever it breaks.
//!
//! ```text
//!   callers --call--> link task --packets--> keeper
//!                        |  ^-- answers, events
//!                        |
//!                        `-- lost: start keeper if it is gone, list, send what waits again
//! ```
//!
//! Every request may be repeated: a spawn by its run epoch, which keeper accepts only once. So a
//! caller never learns that the connection broke.

mod answers;
mod handle;
mod opening;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use noded_keeper::client::{Connection, ConnectionError, Launch, LaunchError};
use noded_keeper::protocol::{
    CallId, Event, Message, Refusal, Request, Response, TaskKey, TaskReport,
};
use parking_lot::Mutex;
use protocol_error_chain::chain;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot, watch};

use answers::{catch_up, outcome};
use opening::watch_pump;
pub use opening::{open, take_sockets};

/// Requests that wait to be sent.
const CALLS_MAX: usize = 4096;
/// How long `List` may take.
const LIST_MAX: Duration = Duration::from_secs(10);
/// How often a lost keeper is looked for.
const RETRY: Duration = Duration::from_millis(500);

/// What keeper says unasked.
#[derive(Debug)]
pub enum KeeperNews {
    /// A run went on.
    Event(Event),
    /// The connection was lost and is back: everything that keeper knows.
    Relisted(Vec<TaskReport>),
}

/// Why keeper cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It could not be started or reached.
    #[error("keeper cannot be reached")]
    Launch(#[source] LaunchError),
    /// pump could not be started.
    #[error("pump cannot be started")]
    Pump(#[source] LaunchError),
    /// The conversation failed.
    #[error("talking to keeper")]
    Connection(#[source] ConnectionError),
    /// No list within the limit.
    #[error("keeper did not answer `List` within {LIST_MAX:?}")]
    ListTimedOut,
    /// Its socket cannot be polled.
    #[error("keeper's socket cannot be polled")]
    Poll(#[source] std::io::Error),
    /// The thread that waits for it ended.
    #[error("the attempt was interrupted")]
    Interrupted,
}

/// Why a request got no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// noded is ending.
    #[error("noded is shutting down")]
    ShuttingDown,
    /// Keeper said no; nothing was changed.
    #[error("keeper refused")]
    Refused(#[source] Refusal),
}

/// Asks keeper. Clones share one connection.
#[derive(Debug, Clone)]
pub struct KeeperHandle {
    calls: mpsc::Sender<Call>,
    sessions: Sessions,
    connections: watch::Receiver<u64>,
}

/// Processes inside tasks, whose events go to whoever asked for them.
type Sessions = Arc<Mutex<BTreeMap<TaskKey, mpsc::Sender<Event>>>>;

#[derive(Debug)]
struct Call {
    request: Request,
    descriptors: Vec<OwnedFd>,
    answer: oneshot::Sender<Result<Response, Refusal>>,
    sent: Sent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Once,
    Again,
}

/// A connection together with what it said before anyone listened.
#[derive(Debug)]
pub struct Opened {
    connection: Connection,
    poll: AsyncFd<OwnedFd>,
    /// Everything that keeper knew when it was asked.
    pub listing: Vec<TaskReport>,
    early: Vec<Event>,
}

/// Runs the link until every handle is dropped.
pub fn start(launch: Launch, opened: Opened, news: mpsc::Sender<KeeperNews>) -> KeeperHandle {
    let (calls, waiting) = mpsc::channel(CALLS_MAX);
    let sessions = Sessions::default();
    let (connected, connections) = watch::channel(1);
    let handle = KeeperHandle {
        calls,
        sessions: Arc::clone(&sessions),
        connections,
    };
    let link = Link {
        waiting,
        news,
        sessions,
        connected,
        pending: BTreeMap::new(),
        again: Vec::new(),
    };
    tokio::spawn(watch_pump(launch.clone(), handle.calls.downgrade()));
    tokio::spawn(link.run(launch, opened));
    handle
}

struct Link {
    waiting: mpsc::Receiver<Call>,
    news: mpsc::Sender<KeeperNews>,
    sessions: Sessions,
    connected: watch::Sender<u64>,
    pending: BTreeMap<CallId, Call>,
    /// Requests whose answer was lost with a connection.
    again: Vec<Call>,
}

/// Why a connection was left.
enum Left {
    NoMoreCallers,
    Lost(ConnectionError),
}

impl Link {
    async fn run(mut self, launch: Launch, mut opened: Opened) {
        loop {
            let early = std::mem::take(&mut opened.early);
            for event in early {
                self.tell(event).await;
            }
            match self.serve(&mut opened).await {
                Left::NoMoreCallers => return,
                Left::Lost(error) => {
                    tracing::warn!(error = %chain(&error), "connection to keeper lost");
                }
            }
            self.again
                .extend(std::mem::take(&mut self.pending).into_values());
            opened = loop {
                match open(&launch).await {
                    Ok(opened) => break opened,
                    Err(error) => {
                        tracing::error!(error = %chain(&error), "keeper cannot be reached");
                        tokio::time::sleep(RETRY).await;
                    }
                }
            };
            tracing::info!("connection to keeper restored");
            let listing = std::mem::take(&mut opened.listing);
            self.catch_up(&listing);
            self.connected.send_modify(|count| *count += 1);
            if self.news.send(KeeperNews::Relisted(listing)).await.is_err() {
                return;
            }
        }
    }

    fn catch_up(&self, listing: &[TaskReport]) {
        let asked = self.again.iter().filter_map(|call| match &call.request {
            Request::Spawn(spawn) => Some(&spawn.key),
            _ => None,
        });
        let asked: Vec<&TaskKey> = asked.collect();
        let mut sessions = self.sessions.lock();
        catch_up(&mut sessions, &asked, listing);
    }

    async fn serve(&mut self, opened: &mut Opened) -> Left {
        let mut again = std::mem::take(&mut self.again).into_iter();
        while let Some(mut call) = again.next() {
            call.sent = Sent::Again;
            if let Err(error) = self.send(opened, call).await {
                // Whoever waits for the others is answered once keeper is back for longer.
                self.again.extend(again);
                return Left::Lost(error);
            }
        }
        loop {
            match self.receive_all(opened).await {
                Ok(()) => {}
                Err(error) => return Left::Lost(error),
            }
            let Opened { poll, .. } = &*opened;
            tokio::select! {
                readable = poll.readable() => match readable {
                    Ok(mut guard) => guard.clear_ready(),
                    Err(_) => return Left::Lost(ConnectionError::Closed),
                },
                call = self.waiting.recv() => {
                    let Some(call) = call else { return Left::NoMoreCallers };
                    if let Err(error) = self.send(opened, call).await {
                        return Left::Lost(error);
                    }
                }
            }
        }
    }

    async fn send(&mut self, opened: &mut Opened, call: Call) -> Result<(), ConnectionError> {
        loop {
            let descriptors: Vec<_> = call.descriptors.iter().map(AsFd::as_fd).collect();
            match opened.connection.send(&call.request, &descriptors) {
                Ok(id) => {
                    drop(descriptors);
                    self.pending.insert(id, call);
                    return Ok(());
                }
                Err(ConnectionError::Send(rustix::io::Errno::AGAIN)) => {}
                Err(error @ ConnectionError::NotSpoken { .. }) => {
                    let detail = chain(&error);
                    drop(descriptors);
                    // A caller that went away no longer wants to know.
                    let _ = call.answer.send(Err(Refusal::Malformed { detail }));
                    return Ok(());
                }
                Err(error) => {
                    self.again.push(call);
                    return Err(error);
                }
            }
            // Full: keeper may itself wait for us to read, now or in a moment.
            if let Err(error) = self.receive_all(opened).await {
                self.again.push(call);
                return Err(error);
            }
            let either = Interest::READABLE | Interest::WRITABLE;
            if let Ok(mut guard) = opened.poll.ready(either).await {
                guard.clear_ready();
            }
        }
    }

    async fn receive_all(&mut self, opened: &mut Opened) -> Result<(), ConnectionError> {
        while let Some(message) = opened.connection.recv()? {
            match message {
                Message::Event(event) => self.tell(event).await,
                Message::Response { call, response } => {
                    if let Some(call) = self.pending.remove(&call) {
                        // A caller that went away no longer wants to know.
                        let _ = call
                            .answer
                            .send(outcome(&call.request, call.sent, response));
                    }
                }
            }
        }
        Ok(())
    }

    async fn tell(&self, event: Event) {
        let session = {
            let sessions = self.sessions.lock();
            sessions.get(key_of(&event)).cloned()
        };
        match session {
            // Full only when its owner is stuck, and then it will not ask either.
            Some(session) => drop(session.try_send(event)),
            None => drop(self.news.send(KeeperNews::Event(event)).await),
        }
    }
}

/// The run that an event is about.
pub fn key_of(event: &Event) -> &TaskKey {
    match event {
        Event::Started { key, .. } | Event::SpawnFailed { key, .. } | Event::Exited { key, .. } => {
            key
        }
    }
}
