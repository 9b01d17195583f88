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

mod handle;
mod opening;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noded_keeper::client::{Connection, ConnectionError, Launch, LaunchError};
use noded_keeper::protocol::{
    CallId, Event, Message, Refusal, Request, Response, TaskKey, TaskPhase, TaskReport,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

pub use opening::open;
use opening::watch_pump;

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
    let handle = KeeperHandle {
        calls,
        sessions: Arc::clone(&sessions),
    };
    let link = Link {
        waiting,
        news,
        sessions,
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
                Left::Lost(error) => tracing::warn!(error = %chain(&error), "keeper was lost"),
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
            tracing::info!("keeper is back");
            let listing = std::mem::take(&mut opened.listing);
            self.catch_up(&listing);
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
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        catch_up(&mut sessions, &asked, listing);
    }

    async fn serve(&mut self, opened: &mut Opened) -> Left {
        for mut call in std::mem::take(&mut self.again) {
            call.sent = Sent::Again;
            if let Err(error) = self.send(opened, call).await {
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
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.get(key_of(&event)).cloned()
        };
        match session {
            // Full only when its owner is stuck, and then it will not ask either.
            Some(session) => drop(session.try_send(event)),
            None => drop(self.news.send(KeeperNews::Event(event)).await),
        }
    }
}

/// Tells those who wait for a process inside a task what they missed while the connection was away.
/// One that keeper does not know, and that is not asked for again, is over: nobody will tell of it.
fn catch_up(
    sessions: &mut BTreeMap<TaskKey, mpsc::Sender<Event>>,
    asked: &[&TaskKey],
    listing: &[TaskReport],
) {
    sessions.retain(|key, events| {
        let listed = listing.iter().find(|report| report.key == *key);
        let event = match listed.map(|report| &report.phase) {
            None => return asked.contains(&key),
            Some(TaskPhase::Exited(exit)) => Event::Exited {
                key: key.clone(),
                exit: *exit,
            },
            Some(TaskPhase::SpawnFailed(failure)) => Event::SpawnFailed {
                key: key.clone(),
                failure: failure.clone(),
            },
            Some(
                TaskPhase::Starting { .. } | TaskPhase::Running { .. } | TaskPhase::Ending { .. },
            ) => return true,
        };
        // Full only when its owner is stuck.
        let _ = events.try_send(event);
        true
    });
}

/// What an answer means to the caller. A spawn that keeper saw before, on a connection that broke,
/// was accepted then.
fn outcome(request: &Request, sent: Sent, response: Response) -> Result<Response, Refusal> {
    match (request, response) {
        (Request::Spawn(spawn), Response::Refused(refusal)) => {
            let own = spawn.key.run_epoch();
            let seen = match &refusal {
                Refusal::StaleEpoch { highest } => *highest == own,
                Refusal::EarlierRunAlive { run_epoch } => *run_epoch == own,
                _ => false,
            };
            if sent == Sent::Again && seen {
                Ok(Response::Accepted)
            } else {
                Err(refusal)
            }
        }
        (_, Response::Refused(refusal)) => Err(refusal),
        (_, response) => Ok(response),
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

/// An error with its sources, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use noded_keeper::protocol::{SpawnFailure, SpawnRequest, StdioSource, UnixNanos};
    use tokio::sync::mpsc::error::TryRecvError;

    use super::*;

    fn spawn(epoch: u64) -> Request {
        Request::Spawn(SpawnRequest {
            key: TaskKey::new("a", "t", epoch).unwrap(),
            cgroup: "a/t".to_owned(),
            stdin: StdioSource::Null,
            stdout: StdioSource::Null,
            stderr: StdioSource::Null,
            network: None,
            target: None,
            start_timeout_ms: 1,
        })
    }

    #[test]
    fn whoever_waits_for_a_process_hears_what_a_lost_connection_did_not_tell() {
        let key = |name: &str| TaskKey::new("a", name, 1).unwrap();
        let mut sessions = BTreeMap::new();
        let mut listen = |name: &str| {
            let (events, received) = mpsc::channel(1);
            sessions.insert(key(name), events);
            received
        };
        let [mut failed, mut runs, mut gone, mut asked] =
            ["failed", "runs", "gone", "asked"].map(&mut listen);
        let failure = SpawnFailure {
            step_index: None,
            step: "clone".to_owned(),
            errno: 11,
            at: UnixNanos(1),
        };
        let phases = [
            ("failed", TaskPhase::SpawnFailed(failure)),
            ("runs", TaskPhase::Starting { pid: 7 }),
        ];
        let listing = phases.map(|(name, phase)| TaskReport {
            key: key(name),
            cgroup: String::new(),
            phase,
        });
        catch_up(&mut sessions, &[&key("asked")], &listing);
        assert!(matches!(failed.try_recv(), Ok(Event::SpawnFailed { .. })));
        assert_eq!(gone.try_recv(), Err(TryRecvError::Disconnected));
        for waits in [&mut runs, &mut asked] {
            assert_eq!(waits.try_recv(), Err(TryRecvError::Empty));
        }
    }

    #[test]
    fn a_spawn_that_was_accepted_before_the_connection_broke_is_accepted() {
        let stale = || Response::Refused(Refusal::StaleEpoch { highest: 3 });
        assert_eq!(
            outcome(&spawn(3), Sent::Again, stale()),
            Ok(Response::Accepted)
        );
        let refusal = Refusal::StaleEpoch { highest: 3 };
        for (epoch, sent) in [(3, Sent::Once), (2, Sent::Again)] {
            let answer = outcome(&spawn(epoch), sent, stale());
            assert_eq!(answer, Err(refusal.clone()), "{epoch}");
        }
    }
}
