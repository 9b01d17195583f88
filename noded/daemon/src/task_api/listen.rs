//! The connections of one task's socket: accepted, looked at, served.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use noded_core::event::RunEvent;
use noded_core::task_api::Guard;
use noded_core::task_api::head::HEAD_BYTES_MAX;
use noded_core::{Event, RunKey};
use parking_lot::Mutex;
use protocol_model::TaskEventKind;
use protocol_transport::LineLimit;
use rustix::net::{SocketFlags, accept_with};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::peer::{PeerRule, Stranger};
use super::request;
use super::stream::ApiStream;
use super::strict::{Refusal, Strict};
use super::{Shared, SocketOwner};
use crate::input::Input;
use crate::poll_fd;

/// The time in which a client sends a head, and in which a connection gets its next one.
const HEAD_MAX: Duration = Duration::from_secs(60);
/// The pause after a failed accept: most often there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// hyper's buffer: a whole head and the beginning of a body.
const BUFFER_BYTES: usize = 2 * HEAD_BYTES_MAX;

static NOT_ACCEPTED: LineLimit = LineLimit::new();
static STRANGERS: LineLimit = LineLimit::new();

/// One task's socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) guard: Mutex<Guard>,
    pub(super) peers: PeerRule,
    pub(super) owner: SocketOwner,
    pub(super) shared: Arc<Shared>,
    pub(super) strangers: Strangers,
}

/// Tells of processes that were turned away: an event of the task the first time.
#[derive(Debug)]
pub(super) struct Strangers {
    is_told: AtomicBool,
    run: Arc<Mutex<RunKey>>,
    inputs: mpsc::Sender<Input>,
}

impl Strangers {
    pub(super) fn new(run: Arc<Mutex<RunKey>>, inputs: mpsc::Sender<Input>) -> Self {
        Self {
            is_told: AtomicBool::new(false),
            run,
            inputs,
        }
    }

    fn tell(&self, owner: &SocketOwner, stranger: &Stranger) {
        let Stranger { pid, uid, reason } = stranger;
        let SocketOwner { alloc, task } = owner;
        if let Some(left_out) = STRANGERS.admit() {
            tracing::warn!(%alloc, %task, pid, uid, reason, left_out, "connection to a task's socket refused");
        }
        if self.is_told.swap(true, Ordering::Relaxed) {
            return;
        }
        let message = format!(
            "Task API: process {pid} of user {uid} was turned away: {reason}. Further ones are only \
             in the node's log"
        );
        let event = RunEvent::Message {
            kind: TaskEventKind::HookMessage,
            message,
        };
        let run = self.run.lock().clone();
        // A loop that is full or ended has more important news; the log has this one.
        let _ = self
            .inputs
            .try_send(Input::Event(Event::Run { run, event }));
    }
}

/// A connection, which occupies a place of its socket.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Arc<Socket>,
    /// The user of the process that has connected.
    pub(super) uid: u32,
    /// The stream to the server, while no request is under way.
    pub(super) stream: Mutex<Option<ApiStream>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.socket.guard.lock().close();
    }
}

/// Accepts connections until the task is aborted. keeper gets copies of the listener.
pub(super) async fn accept(listener: Arc<UnixListener>, socket: Arc<Socket>) {
    let listener = match poll_fd::poll_for(listener, Interest::READABLE) {
        Ok(listener) => listener,
        Err(error) => {
            let SocketOwner { alloc, task } = &socket.owner;
            tracing::error!(%alloc, %task, %error, "the task's socket is not served");
            return;
        }
    };
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accepted = listener.async_io(Interest::READABLE, |listener| {
            let stream = accept_with(listener, flags)?;
            UnixStream::from_std(stream.into())
        });
        let stream = match accepted.await {
            Ok(stream) => stream,
            Err(error) => {
                if let Some(left_out) = NOT_ACCEPTED.admit() {
                    tracing::warn!(%error, left_out, "connection of a task not accepted");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Some(connection) = take(&socket, &stream) {
            tokio::spawn(serve(stream, connection));
        }
    }
}

/// Takes a connection, if it has a place and its process may connect.
fn take(socket: &Arc<Socket>, stream: &UnixStream) -> Option<Connection> {
    if !socket.guard.lock().open() {
        return None;
    }
    let mut connection = Connection {
        socket: Arc::clone(socket),
        uid: u32::MAX,
        stream: Mutex::new(None),
    };
    match socket.peers.check(stream) {
        Ok(uid) => {
            connection.uid = uid;
            Some(connection)
        }
        Err(stranger) => {
            socket.strangers.tell(&socket.owner, &stranger);
            None
        }
    }
}

pub(super) async fn serve(stream: UnixStream, connection: Connection) {
    let connection = Arc::new(connection);
    let refusal = Refusal::default();
    let service = service_fn(|request| {
        let refused = refusal.of(&request);
        request::serve(Arc::clone(&connection), request, refused)
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(Strict::new(stream, refusal.clone())), service)
        .with_upgrades();
    if let Err(error) = serving.await {
        tracing::debug!(%error, "a connection of a task ended");
    }
}
