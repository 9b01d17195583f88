//! The hook `Api`: the socket of a task in its secrets directory, of which keeper holds a copy. A
//! task without one goes on, and its history has the reason.

use std::sync::Arc;

use noded_core::driver::TaskRoot;
use noded_core::effect::PrepareTask;
use noded_core::env::layout::{SOCKET_PATH_BYTES_MAX, TaskPaths};
use noded_core::event::RunEvent;
use noded_core::{Event, NodeCore, RunKey};
use noded_keeper::protocol::{Refusal, Request};
use protocol_error_chain::chain;
use protocol_model::{AllocId, Task, TaskEventKind};
use protocol_transport::LineLimit;
use tokio::task::JoinSet;

use super::Executor;
use crate::config::DriverSettings;
use crate::input::Input;
use crate::keeper_link::CallError;
use crate::task_api::{Listens, SocketOwner};

static NOT_HELD: LineLimit = LineLimit::new();

impl Executor {
    /// Listens on the task's socket. Blocks.
    pub(super) fn api_socket(&self, prepare: &PrepareTask, task: &Task) {
        let listens = self
            .check_path(prepare, task)
            .and_then(|()| self.listen(&prepare.run));
        let problem = match listens {
            Ok(Listens::AsBefore) => return,
            Ok(Listens::Anew) => return self.begin_hold(&SocketOwner::of(&prepare.run)),
            Err(problem) => problem,
        };
        let run = prepare.run.clone();
        tracing::warn!(%run, %problem, "a task has no socket of the Task API");
        let event = RunEvent::Message {
            kind: TaskEventKind::HookMessage,
            message: format!("Task API: {problem}"),
        };
        // A loop that ended no longer wants to know.
        let _ = self
            .inputs
            .blocking_send(Input::Event(Event::Run { run, event }));
    }

    fn check_path(&self, prepare: &PrepareTask, task: &Task) -> Result<(), String> {
        let config = self.config.now();
        let settings = config.drivers.find(&task.driver);
        let root = settings.map_or(TaskRoot::Host, DriverSettings::root);
        let alloc_root = config.alloc_root();
        let alloc_root = alloc_root.to_string_lossy();
        let seen = TaskPaths::as_seen(root, &alloc_root, prepare.run.alloc, &task.name);
        seen.api_socket().map(drop).map_err(|path| {
            format!(
                "the path of its socket has {} bytes as the task sees it, and a socket's path has \
                 at most {SOCKET_PATH_BYTES_MAX}; use a shorter data_dir or task name",
                path.len()
            )
        })
    }

    fn listen(&self, run: &RunKey) -> Result<Listens, String> {
        let secrets = self.allocs.secrets_of(run.alloc, &run.task);
        let secrets = secrets.map_err(|error| chain(&error))?;
        let listens = self.task_api.listen(run, &secrets);
        listens.map_err(|error| chain(&error))
    }

    /// Listens again for the tasks that run since an earlier life of the daemon, and on every
    /// socket that keeper held. keeper holds the ones that are bound anew, and a keeper after this
    /// one holds all, until the answer is dropped. Blocks for a moment.
    pub(crate) async fn take_up_sockets(self: &Arc<Self>, core: &NodeCore) -> JoinSet<()> {
        let mut holding = JoinSet::new();
        if self.task_api.is_enabled() {
            let anew = self.listen_again(core);
            holding.spawn(Arc::clone(self).hold_all(anew));
        }
        // Before any task of these can have another socket.
        for alloc in self.task_api.drop_all_inherited() {
            if !self.task_api.has_listening(alloc) {
                tracing::info!(%alloc, "the sockets that keeper held for it have no task");
                self.drop_held(alloc).await;
            }
        }
        holding
    }

    /// The tasks whose sockets keeper does not hold.
    fn listen_again(&self, core: &NodeCore) -> Vec<SocketOwner> {
        let tasks = core.allocs().flat_map(|runner| runner.tasks().values());
        let known = tasks.map(|task| (task.run(), task.has_process()));
        let unknown = core.runs_without_spec().into_iter().map(|run| (run, false));
        let mut anew = Vec::new();
        for (run, has_process) in known.chain(unknown) {
            let owner = SocketOwner::of(&run);
            if !has_process {
                self.adopt(&run, &owner);
                continue;
            }
            match self.listen(&run) {
                Ok(Listens::AsBefore) => {}
                Ok(Listens::Anew) => anew.push(owner),
                Err(problem) => {
                    tracing::warn!(%run, %problem, "a task has no socket of the Task API");
                }
            }
        }
        anew
    }

    /// Listens on a socket that keeper held. The next attempt of a task without a process binds its
    /// own, if there is none.
    fn adopt(&self, run: &RunKey, owner: &SocketOwner) {
        if self.task_api.has_inherited(owner)
            && let Ok(secrets) = self.allocs.secrets_of(run.alloc, &run.task)
        {
            self.task_api.adopt(run, &secrets);
        }
    }

    /// Gives keeper a copy before anything that is asked of it later: a task that starts has a
    /// socket that is held. Blocks while keeper is away and too much waits for it.
    fn begin_hold(&self, owner: &SocketOwner) {
        let Some((request, copy)) = self.hold_request(owner) else {
            return;
        };
        if let Ok(answer) = self.keeper.begin(request, vec![copy]) {
            let owner = owner.clone();
            tokio::spawn(async move { log_hold(&owner, answer.wait().await.err()) });
        }
    }

    async fn hold(&self, owner: &SocketOwner) {
        let Some((request, copy)) = self.hold_request(owner) else {
            return;
        };
        let held = self.keeper.call(request, vec![copy]).await;
        log_hold(owner, held.err());
        // It may have been closed, and dropped, before keeper held it.
        if !self.task_api.has_listening(owner.alloc) {
            self.drop_held(owner.alloc).await;
        }
    }

    fn hold_request(&self, owner: &SocketOwner) -> Option<(Request, std::os::fd::OwnedFd)> {
        let name = Self::log_owner(owner.alloc, &owner.task)?;
        match self.task_api.copy(owner) {
            Ok(copy) => Some((Request::Hold { owner: name }, copy?)),
            Err(error) => {
                let SocketOwner { alloc, task } = owner;
                tracing::warn!(%alloc, %task, %error, "keeper does not hold a task's socket");
                None
            }
        }
    }

    /// Has keeper hold these, and all after each new connection: a keeper that is started after
    /// another one holds nothing.
    async fn hold_all(self: Arc<Self>, anew: Vec<SocketOwner>) {
        let mut connections = self.keeper.connections();
        for owner in anew {
            self.hold(&owner).await;
        }
        while connections.changed().await.is_ok() {
            for owner in self.task_api.listening() {
                self.hold(&owner).await;
            }
        }
    }

    /// Closes the sockets of an allocation, here and at keeper.
    pub(super) async fn close_sockets(&self, alloc: AllocId) {
        if self.task_api.close(alloc) {
            self.drop_held(alloc).await;
        }
    }

    async fn drop_held(&self, alloc: AllocId) {
        let request = Request::Drop {
            alloc: alloc.to_string(),
        };
        // An older keeper refuses it, and holds nothing.
        if let Err(error) = self.keeper.call(request, Vec::new()).await {
            let error = chain(&error);
            tracing::debug!(%alloc, error, "keeper was not told to close sockets");
        }
    }
}

fn log_hold(owner: &SocketOwner, error: Option<CallError>) {
    let SocketOwner { alloc, task } = owner;
    match error {
        None | Some(CallError::ShuttingDown) => {}
        // An older keeper, which is told of at the start.
        Some(CallError::Refused(Refusal::Malformed { detail })) => {
            tracing::debug!(%alloc, %task, detail, "keeper does not hold a task's socket");
        }
        Some(error) => {
            if let Some(left_out) = NOT_HELD.admit() {
                let error = chain(&error);
                tracing::warn!(%alloc, %task, error, left_out, "keeper does not hold a task's socket");
            }
        }
    }
}
