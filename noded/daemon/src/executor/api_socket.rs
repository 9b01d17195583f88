//! The hook `Api`: the socket of a task in its secrets directory. A task without one goes on, and
//! its history has the reason.

use noded_core::driver::TaskRoot;
use noded_core::effect::PrepareTask;
use noded_core::env::layout::{SOCKET_PATH_BYTES_MAX, TaskPaths};
use noded_core::event::RunEvent;
use noded_core::{Event, NodeCore, RunKey};
use protocol_error_chain::chain;
use protocol_model::{Task, TaskEventKind};

use super::Executor;
use crate::config::DriverSettings;
use crate::input::Input;

impl Executor {
    /// Listens on the task's socket. Blocks.
    pub(super) fn api_socket(&self, prepare: &PrepareTask, task: &Task) {
        if let Err(problem) = self
            .check_path(prepare, task)
            .and_then(|()| self.listen(&prepare.run))
        {
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

    fn listen(&self, run: &RunKey) -> Result<(), String> {
        let secrets = self.allocs.secrets_of(run.alloc, &run.task);
        let secrets = secrets.map_err(|error| chain(&error))?;
        let listening = self.task_api.listen(run, &secrets);
        listening.map_err(|error| chain(&error))
    }

    /// Listens again for the tasks that run since an earlier life of the daemon. Blocks.
    pub(crate) fn take_up_sockets(&self, core: &NodeCore) {
        if !self.task_api.is_enabled() {
            return;
        }
        for runner in core.allocs() {
            for task in runner.tasks().values().filter(|task| task.has_process()) {
                let run = task.run();
                if let Err(problem) = self.listen(&run) {
                    tracing::warn!(%run, %problem, "a task has no socket of the Task API");
                }
            }
        }
    }
}
