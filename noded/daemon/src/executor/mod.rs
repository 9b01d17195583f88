//! Executes what the core asks for allocations and tasks: directories, preparation, processes.
//!
//! ```text
//!   Effect --> Executor::execute --> directories, streams, cgroups, keeper --> Vec<Event>
//! ```
//!
//! The loop runs at most one effect of a lane at a time, in the core's order; effects of different
//! tasks and allocations run side by side.

mod api_socket;
mod artifacts;
mod beside;
mod change_script;
mod identities;
mod limits;
mod masks;
mod names;
mod prepare;
mod prepare_alloc;
mod sandbox;
mod start;
mod teardown;
mod template_work;
mod templates;
mod users;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use isolation::cgroup::{CgroupError, Hierarchy, TaskPath};
use noded_core::event::{AllocEvent, Exit, ExitStatus, RunEvent};
use noded_core::{Effect, Event, RunEpoch, RunKey};
use noded_keeper::paths::RuntimePaths;
use noded_keeper::protocol::{AllocAndTask, OsSignal, Refusal, Request, TaskKey};
use protocol_error_chain::chain;
use protocol_model::{AllocId, Node, TaskEventKind};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::alloc_dir::AllocRoot;
use crate::clock;
use crate::config::LiveConfig;
use crate::drivers::{OwnRuns, own_runs};
use crate::identities::IdentityService;
use crate::input::Input;
use crate::jail::Jail;
use crate::keeper_link::{CallError, KeeperHandle};
use crate::networks::Networks;
use crate::os_signal;
use crate::task_api::TaskApi;
use crate::template_watch::TemplateWatch;
use crate::variables::Variables;

pub(crate) use beside::{Beside, BesideError, Stdio, exit_code};
pub use sandbox::{KeptSandbox, SandboxStore};

/// Effects that may block at the same time: half of the threads that may, so that a disk that hangs
/// leaves some to look at files, and to find servers by their names.
const BLOCKING_MAX: usize = 16;
/// What executing needs.
#[derive(Debug)]
pub struct Executor {
    /// The node's configuration.
    pub config: LiveConfig,
    /// The directories of allocations.
    pub allocs: AllocRoot,
    /// Our cgroups.
    pub hierarchy: Hierarchy,
    /// keeper's and pump's directory.
    pub paths: RuntimePaths,
    /// keeper.
    pub keeper: KeeperHandle,
    /// The sandboxes of running tasks.
    pub sandboxes: SandboxStore,
    /// MHz that one core counts as, by the node's facts; 0 before there are any.
    pub(crate) core_mhz: AtomicU64,
    own: BTreeMap<&'static str, Box<dyn OwnRuns>>,
    pub(crate) networks: Networks,
    pub(crate) jail: Jail,
    /// The sockets of tasks.
    pub(crate) task_api: TaskApi,
    /// The identities of tasks.
    pub(crate) identities: Arc<IdentityService>,
    /// The files that templates read.
    pub(crate) watch: TemplateWatch,
    /// The variables that templates read.
    pub(crate) variables: Arc<Variables>,
    inputs: mpsc::Sender<Input>,
    blocking: Semaphore,
}

/// The parts of the host that an executor acts on.
#[derive(Debug)]
pub struct HostParts {
    /// The directories of allocations.
    pub allocs: AllocRoot,
    /// Our cgroups.
    pub hierarchy: Hierarchy,
    /// keeper.
    pub keeper: KeeperHandle,
    /// The sandboxes of running tasks.
    pub sandboxes: SandboxStore,
    /// The networks of allocations.
    pub networks: Networks,
    /// The children that handle foreign bytes.
    pub jail: Jail,
    /// The sockets of tasks.
    pub task_api: TaskApi,
    /// The identities of tasks.
    pub identities: Arc<IdentityService>,
}

impl Executor {
    /// An executor. What drivers do that run their tasks themselves is told to `inputs`.
    pub fn new(config: LiveConfig, parts: HostParts, inputs: &mpsc::Sender<Input>) -> Self {
        let HostParts {
            allocs,
            hierarchy,
            keeper,
            sandboxes,
            networks,
            jail,
            task_api,
            identities,
        } = parts;
        Self {
            paths: RuntimePaths::new(&config.now().run_dir),
            networks,
            jail,
            task_api,
            variables: Arc::new(Variables::new(
                Arc::clone(identities.queries()),
                inputs.clone(),
            )),
            identities,
            config,
            allocs,
            hierarchy,
            keeper,
            sandboxes,
            core_mhz: AtomicU64::new(0),
            own: own_runs(inputs),
            watch: TemplateWatch::default(),
            inputs: inputs.clone(),
            blocking: Semaphore::new(BLOCKING_MAX),
        }
    }

    /// Takes in what a core of this host counts as: jobs ask for shares of it.
    pub(crate) fn count_cores(&self, node: &Node) {
        let cpu = &node.node_resources.cpu;
        let shares = u64::try_from(cpu.cpu_shares).unwrap_or(0);
        let mhz = shares / u64::from(cpu.total_cpu_cores).max(1);
        self.core_mhz.store(mhz, Ordering::Relaxed);
    }

    /// Does what an effect of an allocation's lane says. A preparation ends within a second of its
    /// `cancel`.
    pub async fn execute(
        self: &Arc<Self>,
        effect: Effect,
        cancel: &CancellationToken,
    ) -> Vec<Event> {
        match effect {
            Effect::PrepareAlloc { spec, hooks } => {
                let alloc = spec.id();
                let event = self
                    .blocking(move |own| own.prepare_alloc(&spec, &hooks))
                    .await;
                vec![Event::Alloc { alloc, event }]
            }
            Effect::RetireAlloc { alloc } => {
                self.forget(alloc).await;
                self.retire(alloc).await;
                Vec::new()
            }
            Effect::DestroyAlloc { alloc } => {
                self.forget(alloc).await;
                self.destroy(alloc).await;
                let event = AllocEvent::Destroyed;
                vec![Event::Alloc { alloc, event }]
            }
            Effect::PrepareTask(task) => {
                let run = task.run.clone();
                let event = self.prepare(Arc::new(*task), cancel).await;
                vec![Event::Run { run, event }]
            }
            Effect::StartTask(task) => {
                let run = task.run.clone();
                match self.start(*task).await {
                    // Keeper's event says that it started.
                    Ok(None) => Vec::new(),
                    Ok(Some(message)) => {
                        let kind = TaskEventKind::Driver;
                        let event = RunEvent::Message { kind, message };
                        vec![Event::Run { run, event }]
                    }
                    Err(failed) => vec![Event::Run {
                        run,
                        event: failed.into(),
                    }],
                }
            }
            Effect::StopTask {
                run,
                signal,
                kill_after,
            } => self.stop(run, &signal, kill_after).await,
            Effect::KillTask { run } => self.kill(run).await,
            Effect::SignalTask { run, signal } => self.signal(run, &signal).await,
            Effect::FollowTemplates(work) => self.follow_templates(*work, cancel).await,
            Effect::RenderTemplates(work) => self.render_templates(*work, cancel).await,
            Effect::FollowIdentities(work) => self.follow_identities(*work).await,
            Effect::RunChangeScript(script) => {
                self.begin_script(*script);
                Vec::new()
            }
            Effect::ReleaseRun { run } => {
                self.pause(&run);
                self.release(run).await;
                Vec::new()
            }
            Effect::CancelPrepare { .. }
            | Effect::Append(_)
            | Effect::Connect { .. }
            | Effect::Disconnect { .. }
            | Effect::OpenWatch { .. }
            | Effect::TendLeases { .. }
            | Effect::Send { .. } => Vec::new(),
        }
    }

    /// Nothing is told or renewed for an allocation any more.
    async fn forget(&self, alloc: AllocId) {
        self.watch.forget(alloc);
        self.close_sockets(alloc).await;
        self.variables.forget(alloc);
        self.identities.forget(alloc).await;
    }

    /// Nothing is told or renewed until the next run.
    fn pause(&self, run: &RunKey) {
        self.watch.pause(run);
        self.variables.pause(run);
        self.identities.pause(run);
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> T {
        let own = Arc::clone(self);
        // Never closed. Nobody gives up waiting for an effect, so the turn ends with the work.
        let _turn = self.blocking.acquire().await;
        match tokio::task::spawn_blocking(move || work(&own)).await {
            Ok(done) => done,
            // The runtime ends, and nobody reads the answer.
            Err(error) if error.is_cancelled() => std::future::pending().await,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Asks the driver to end a run that it has itself; `false` where keeper has it.
    fn stop_own(&self, run: &RunKey) -> bool {
        self.own.values().any(|runs| runs.stop(run))
    }

    async fn stop(&self, run: RunKey, signal: &str, kill_after: Duration) -> Vec<Event> {
        if self.stop_own(&run) {
            return Vec::new();
        }
        let Some(key) = keeper_key(&run) else {
            return vec![unknown(run)];
        };
        let request = Request::Stop {
            key: key.clone(),
            // Another one passed no preparation; an earlier release's may be left.
            signal: OsSignal(os_signal::number(signal).unwrap_or(os_signal::SIGTERM)),
            kill_after_ms: u64::try_from(kill_after.as_millis()).unwrap_or(u64::MAX),
        };
        match self.keeper.call(request, Vec::new()).await {
            Err(CallError::Refused(Refusal::StillStarting)) => self.kill(run).await,
            Err(CallError::Refused(refusal)) => ended(run, &refusal),
            Ok(_) | Err(CallError::ShuttingDown) => Vec::new(),
        }
    }

    async fn kill(&self, run: RunKey) -> Vec<Event> {
        if self.stop_own(&run) {
            return Vec::new();
        }
        let Some(key) = keeper_key(&run) else {
            return vec![unknown(run)];
        };
        match self.keeper.call(Request::Kill { key }, Vec::new()).await {
            Err(CallError::Refused(refusal)) => ended(run, &refusal),
            Ok(_) | Err(CallError::ShuttingDown) => Vec::new(),
        }
    }

    async fn signal(&self, run: RunKey, signal: &str) -> Vec<Event> {
        let failed = |message: String| {
            vec![Event::Run {
                run: run.clone(),
                event: RunEvent::Message {
                    kind: TaskEventKind::Signaling,
                    message,
                },
            }]
        };
        let (Some(key), Some(number)) = (keeper_key(&run), os_signal::number(signal)) else {
            return failed(format!("{signal:?} is no signal"));
        };
        let signal = OsSignal(number);
        match self
            .keeper
            .call(Request::Signal { key, signal }, Vec::new())
            .await
        {
            Ok(_) | Err(CallError::ShuttingDown) => Vec::new(),
            Err(error) => failed(format!("the signal was not sent: {}", chain(&error))),
        }
    }

    /// The name under which keeper and pump know a task.
    pub fn log_owner(alloc: AllocId, task: &str) -> Option<AllocAndTask> {
        AllocAndTask::new(alloc.to_string(), task).ok()
    }
}

/// Keeper's name of a run.
pub fn keeper_key(run: &RunKey) -> Option<TaskKey> {
    TaskKey::new(run.alloc.to_string(), run.task.clone(), run.epoch.0).ok()
}

/// The cgroup of a run: of its own, so that what is left of an earlier one is in nobody's way.
///
/// # Errors
/// The task's name is none for a directory.
pub fn cgroup_of(run: &TaskKey) -> Result<TaskPath, CgroupError> {
    TaskPath::new(run.alloc(), &format!("{}.{}", run.task(), run.run_epoch()))
}

/// The run that a cgroup is of; `None` for one that is no run's.
pub(crate) fn run_of(path: &TaskPath) -> Option<RunKey> {
    let (task, epoch) = path.task().rsplit_once('.')?;
    let epoch = RunEpoch(epoch.parse().ok()?);
    Some(RunKey::new(path.alloc().parse().ok()?, task, epoch))
}

/// What a refused stop means: the run is over. An end that keeper still knows comes as its event.
fn ended(run: RunKey, refusal: &Refusal) -> Vec<Event> {
    match refusal {
        Refusal::AlreadyEnded => Vec::new(),
        Refusal::UnknownTask => vec![unknown(run)],
        other => {
            tracing::error!(%run, refusal = %other, "keeper refused to stop a run");
            Vec::new()
        }
    }
}

fn unknown(run: RunKey) -> Event {
    let exit = Exit {
        status: ExitStatus::Unknown,
        oom_killed: false,
        signal_discarded: false,
        lease_expired: false,
        at: clock::wall(),
    };
    Event::Run {
        run,
        event: RunEvent::Exited(exit),
    }
}
