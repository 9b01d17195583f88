//! The Task API: each task's socket `secrets/api.sock`, on which it reaches the HTTP API of its
//! cluster with a token.
//!
//! ```text
//!  task --connect--> listen: places, peer --> strict: heads --> hyper (HTTP/1.1)
//!                                      verify: workload tokens -->  | request: verdict
//!                                                                  v
//!  server <== QUIC, one stream per connection of a task ======= forward
//! ```
//!
//! keeper holds a copy of each listening socket ([`held`]): while noded restarts, a connect waits.
//!
//! One thread `task-api` serves all sockets: a flood of requests takes a processor from neither the
//! node's loop nor its sessions. The decisions are [`noded_core::task_api`]'s.

mod credential;
mod exchange;
mod forward;
mod held;
mod listen;
mod peer;
mod request;
mod socket;
mod stream;
mod strict;
#[cfg(test)]
mod threat_22;
mod upgraded;
mod verify;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, OnceLock, Weak};

use noded_core::RunKey;
use noded_core::task_api::Guard;
use parking_lot::Mutex;
use protocol_model::AllocId;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;

use self::forward::Forwarder;
use self::peer::PeerRule;
use self::socket::SocketFile;
use self::verify::TokenJudge;
use crate::config::TaskApiSettings;
use crate::input::Input;
use crate::keys::KeyStore;
use crate::session::SessionContext;

pub(crate) use self::socket::SocketError;

/// Requests of all tasks that are under way at a time; further ones get 429.
const UNDER_WAY_MAX: usize = 512;

/// The sockets of all tasks.
#[derive(Debug)]
pub struct TaskApi {
    settings: TaskApiSettings,
    /// The cgroup of all tasks, relative to the mount.
    tasks: String,
    inputs: mpsc::Sender<Input>,
    shared: Arc<Shared>,
    sockets: Mutex<BTreeMap<SocketOwner, Listening>>,
    /// The sockets that keeper held for this noded, until their tasks are taken up.
    inherited: Mutex<BTreeMap<SocketOwner, OwnedFd>>,
    threads: Handle,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

/// The task that a socket is of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SocketOwner {
    pub(crate) alloc: AllocId,
    pub(crate) task: String,
}

impl SocketOwner {
    pub(crate) fn of(run: &RunKey) -> Self {
        Self {
            alloc: run.alloc,
            task: run.task.clone(),
        }
    }
}

/// The socket of a task that now listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listens {
    /// keeper holds it, or is about to.
    AsBefore,
    /// keeper holds none, or another one.
    Anew,
}

/// The parts that all sockets share.
#[derive(Debug)]
struct Shared {
    under_way: Arc<Semaphore>,
    tokens: TokenJudge,
    forwarder: OnceLock<Forwarder>,
}

#[derive(Debug)]
struct Listening {
    socket: Arc<UnixListener>,
    file: SocketFile,
    accepting: AbortHandle,
    run: Arc<Mutex<RunKey>>,
}

impl TaskApi {
    /// Starts the thread. Requests get 503 until there is a session. Workload tokens are verified
    /// with `keys`.
    ///
    /// # Errors
    /// Where no thread can be made.
    pub fn start(
        settings: TaskApiSettings,
        tasks: String,
        inputs: mpsc::Sender<Input>,
        keys: Arc<KeyStore>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let threads = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("task-api".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
            })?;
        tracing::info!(engine = "epoll", "the Task API serves");
        Ok(Self {
            settings,
            tasks,
            inputs,
            shared: Arc::new(Shared {
                under_way: Arc::new(Semaphore::new(UNDER_WAY_MAX)),
                tokens: TokenJudge::new(keys),
                forwarder: OnceLock::new(),
            }),
            sockets: Mutex::default(),
            inherited: Mutex::default(),
            threads,
            _stop: stop,
        })
    }

    /// Forwards requests in the sessions of `context`. Only the first call counts.
    pub fn forward(&self, context: Weak<SessionContext>) {
        if let Some(forwarder) = Forwarder::new(context) {
            let _ = self.shared.forwarder.set(forwarder);
        }
    }

    /// Whether tasks have sockets.
    pub fn is_enabled(&self) -> bool {
        self.settings.enabled
    }

    /// Listens for the task of `run` in its secrets directory. A socket that listens there already
    /// stays, also one that an earlier noded has bound. Blocks for a moment.
    ///
    /// # Errors
    /// Where no socket can be bound there.
    pub(crate) fn listen(&self, run: &RunKey, secrets: &OwnedFd) -> Result<Listens, SocketError> {
        self.shared.tokens.run(run.alloc);
        if let Some(listening) = self.sockets.lock().get(&SocketOwner::of(run))
            && listening.file.is_in(secrets)
        {
            run.clone_into(&mut listening.run.lock());
            return Ok(Listens::AsBefore);
        }
        if self.adopt(run, secrets) {
            return Ok(Listens::AsBefore);
        }
        self.serve(run, socket::bind(secrets)?);
        Ok(Listens::Anew)
    }

    /// Listens on the socket that keeper held for the task of `run`; `false` where there was none
    /// for this directory. Blocks for a moment.
    pub(crate) fn adopt(&self, run: &RunKey, secrets: &OwnedFd) -> bool {
        let inherited = self.inherited.lock().remove(&SocketOwner::of(run));
        let adopted = inherited.and_then(|socket| socket::adopt(secrets, socket));
        let is_adopted = adopted.is_some();
        adopted
            .into_iter()
            .for_each(|socket| self.serve(run, socket));
        is_adopted
    }

    fn serve(&self, run: &RunKey, (listener, file): (UnixListener, SocketFile)) {
        let owner = SocketOwner::of(run);
        let listener = Arc::new(listener);
        let run = Arc::new(Mutex::new(run.clone()));
        let socket = listen::Socket {
            guard: Mutex::new(Guard::new(self.settings.limits)),
            peers: PeerRule::new(self.settings.peers, &self.tasks, &owner, file.uid()),
            owner: owner.clone(),
            shared: Arc::clone(&self.shared),
            strangers: listen::Strangers::new(Arc::clone(&run), self.inputs.clone()),
        };
        let accepting = self
            .threads
            .spawn(listen::accept(Arc::clone(&listener), Arc::new(socket)));
        let listening = Listening {
            socket: listener,
            file,
            accepting: accepting.abort_handle(),
            run,
        };
        if let Some(before) = self.sockets.lock().insert(owner, listening) {
            before.accepting.abort();
        }
    }

    /// Closes the sockets of an allocation that has ended, refuses its tokens, and says whether it
    /// had any socket. Connections that are open end with their tasks.
    pub(crate) fn close(&self, alloc: AllocId) -> bool {
        self.shared.tokens.end(alloc);
        let mut had_any = false;
        self.sockets.lock().retain(|owner, listening| {
            let stays = owner.alloc != alloc;
            if !stays {
                listening.accepting.abort();
                had_any = true;
            }
            stays
        });
        had_any
    }
}
