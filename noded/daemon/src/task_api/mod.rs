//! The Task API: each task's socket `secrets/api.sock`, on which it reaches the HTTP API of its
//! cluster with a token.
//!
//! ```text
//!  task --connect--> listen: places, peer --> strict: heads --> hyper (HTTP/1.1)
//!                                                                  | request: verdict
//!                                                                  v
//!  server <== QUIC, one stream per connection of a task ======= forward
//! ```
//!
//! One thread `task-api` serves all sockets: a flood of requests takes a processor from neither the
//! node's loop nor its sessions. The decisions are [`noded_core::task_api`]'s.

mod credential;
mod exchange;
mod forward;
mod listen;
mod peer;
mod request;
mod socket;
mod stream;
mod strict;
#[cfg(test)]
mod threat_22;
mod upgraded;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
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
use crate::config::TaskApiSettings;
use crate::input::Input;
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

/// The parts that all sockets share.
#[derive(Debug)]
struct Shared {
    under_way: Arc<Semaphore>,
    forwarder: OnceLock<Forwarder>,
}

#[derive(Debug)]
struct Listening {
    file: SocketFile,
    accepting: AbortHandle,
    run: Arc<Mutex<RunKey>>,
}

impl TaskApi {
    /// Starts the thread. Requests get 503 until there is a session.
    ///
    /// # Errors
    /// Where no thread can be made.
    pub fn start(
        settings: TaskApiSettings,
        tasks: String,
        inputs: mpsc::Sender<Input>,
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
                forwarder: OnceLock::new(),
            }),
            sockets: Mutex::default(),
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
    /// stays. Blocks for a moment.
    ///
    /// # Errors
    /// Where no socket can be bound there.
    pub(crate) fn listen(&self, run: &RunKey, secrets: &OwnedFd) -> Result<(), SocketError> {
        let owner = SocketOwner {
            alloc: run.alloc,
            task: run.task.clone(),
        };
        let mut sockets = self.sockets.lock();
        if let Some(listening) = sockets.get(&owner)
            && listening.file.is_in(secrets)
        {
            run.clone_into(&mut listening.run.lock());
            return Ok(());
        }
        let (listener, file) = socket::bind(secrets)?;
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
            .spawn(listen::accept(listener, Arc::new(socket)));
        let listening = Listening {
            file,
            accepting: accepting.abort_handle(),
            run,
        };
        if let Some(before) = sockets.insert(owner, listening) {
            before.accepting.abort();
        }
        Ok(())
    }

    /// Closes the sockets of an allocation. Connections that are open end with their tasks.
    pub(crate) fn close(&self, alloc: AllocId) {
        self.sockets.lock().retain(|owner, listening| {
            let stays = owner.alloc != alloc;
            if !stays {
                listening.accepting.abort();
            }
            stays
        });
    }
}
