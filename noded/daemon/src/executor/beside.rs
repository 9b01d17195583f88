//! One more process beside a task, in its namespaces and below its cgroup: of `alloc exec`, or the
//! change script of a template.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use isolation::cgroup::CgroupError;
use isolation::{ExecInto, PlanError, plan_exec_into};
use noded_core::RunKey;
use noded_keeper::client::{SealPlanError, seal_plan};
use noded_keeper::protocol::{
    Event, ExitStatus, KeyError, Request, SpawnRequest, StdioSource, TaskKey,
};
use tokio::sync::mpsc;

use super::{Executor, cgroup_of, keeper_key};
use crate::keeper_link::CallError;

const START_TIMEOUT_MS: u64 = 10_000;
/// How long its cgroup is waited for after its end.
const CGROUP_PAUSES_MAX: u32 = 100;
const CGROUP_PAUSE: Duration = Duration::from_millis(10);

/// Why there is no process beside a task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BesideError {
    /// Keeper has no name for it.
    #[error("the name of the process")]
    Name(#[source] KeyError),
    /// The task has none for a cgroup.
    #[error("the cgroup of the task")]
    TaskCgroup(#[source] CgroupError),
    /// The task is none of keeper's, or its sandbox was lost.
    #[error(
        "the sandbox of the task is not known any more: it ended, or its driver has no sandbox"
    )]
    UnknownSandbox,
    /// Its sandbox has no place for the process.
    #[error("the plan of the process")]
    Plan(#[source] PlanError),
    /// Its plan cannot be handed over.
    #[error("the plan of the process")]
    Seal(#[source] SealPlanError),
    /// It has no cgroup.
    #[error("making the cgroup of the process")]
    Cgroup(#[source] std::io::Error),
    /// Keeper did not take it.
    #[error("keeper did not start the process")]
    Keeper(#[source] CallError),
}

/// Where the process reads and writes.
pub(crate) enum Stdio {
    /// Nowhere.
    Null,
    /// Standard input, output and error.
    Descriptors([OwnedFd; 3]),
}

/// A process beside a task. [`Self::end`] takes everything of it away.
pub(crate) struct Beside {
    executor: Arc<Executor>,
    target: RunKey,
    key: TaskKey,
    cgroup: String,
}

impl Beside {
    /// A name and a cgroup for a process beside a run.
    pub(crate) fn new(executor: &Arc<Executor>, target: RunKey) -> Result<Self, BesideError> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let key = TaskKey::new(target.alloc.to_string(), format!("exec-{id}"), 1)
            .map_err(BesideError::Name)?;
        let beside = TaskKey::new(
            target.alloc.to_string(),
            target.task.clone(),
            target.epoch.0,
        )
        .map_err(BesideError::Name)?;
        let beside = cgroup_of(&beside).map_err(BesideError::TaskCgroup)?;
        Ok(Self {
            executor: Arc::clone(executor),
            cgroup: format!("{beside}/{}", key.task()),
            target,
            key,
        })
    }

    /// Starts it; its events come.
    pub(crate) async fn start(
        &self,
        into: &ExecInto,
        stdio: Stdio,
    ) -> Result<mpsc::Receiver<Event>, BesideError> {
        let (spawn, descriptors) = self.request(into, stdio)?;
        std::fs::create_dir(self.cgroup_path()).map_err(BesideError::Cgroup)?;
        let keeper = &self.executor.keeper;
        let events = keeper.open_session(self.key.clone());
        keeper
            .call(spawn, descriptors)
            .await
            .map_err(BesideError::Keeper)?;
        Ok(events)
    }

    fn request(
        &self,
        into: &ExecInto,
        stdio: Stdio,
    ) -> Result<(Request, Vec<OwnedFd>), BesideError> {
        let kept = self.executor.sandboxes.find(&self.target);
        let kept = kept.ok_or(BesideError::UnknownSandbox)?;
        let plan = plan_exec_into(&kept.spec, into).map_err(BesideError::Plan)?;
        let sealed = seal_plan(&plan).map_err(BesideError::Seal)?;
        let mut descriptors = vec![sealed];
        let at = |position| StdioSource::Descriptor { position };
        let (stdin, stdout, stderr) = match stdio {
            Stdio::Null => (StdioSource::Null, StdioSource::Null, StdioSource::Null),
            Stdio::Descriptors(of_process) => {
                descriptors.extend(of_process);
                (at(1), at(2), at(3))
            }
        };
        let spawn = SpawnRequest {
            key: self.key.clone(),
            cgroup: self.cgroup.clone(),
            stdin,
            stdout,
            stderr,
            network: None,
            target: keeper_key(&self.target),
            start_timeout_ms: START_TIMEOUT_MS,
        };
        Ok((Request::Spawn(spawn), descriptors))
    }

    fn cgroup_path(&self) -> PathBuf {
        let hierarchy = &self.executor.hierarchy;
        let base = hierarchy.mount().path.join(hierarchy.base());
        base.join(isolation::cgroup::TASKS).join(&self.cgroup)
    }

    /// The process is dead, or dies now; nothing of it stays.
    pub(crate) async fn end(self) {
        let keeper = &self.executor.keeper;
        keeper.close_session(&self.key);
        let key = || self.key.clone();
        let _answer = keeper.call(Request::Kill { key: key() }, Vec::new()).await;
        let cgroup = self.cgroup_path();
        for _ in 0..CGROUP_PAUSES_MAX {
            match std::fs::remove_dir(&cgroup) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    tokio::time::sleep(CGROUP_PAUSE).await;
                }
                // The task ended too, and took it along.
                Ok(()) | Err(_) => break,
            }
        }
        let _answer = keeper
            .call(Request::Acknowledge { key: key() }, Vec::new())
            .await;
    }
}

impl Drop for Beside {
    /// Its events go nowhere once its caller is gone, however that ends.
    fn drop(&mut self) {
        self.executor.keeper.close_session(&self.key);
    }
}

/// The exit code of a process, as shells say it.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    match status {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal { signal, .. } => 128 + signal.0,
        ExitStatus::Unknown => 255,
    }
}
