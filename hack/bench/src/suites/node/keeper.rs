//! A keeper without noded: the suite is its client, and does for each task what noded does for it
//! (network namespace, cgroup, plan, request, acknowledgement, removal).

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hack_cluster::{Daemon, Place};
use isolation::cgroup::{Hierarchy, Patience, TASKS, TaskPath, find_mount};
use nix::errno::Errno;
use noded_keeper::client::{Connection, ConnectionError, seal_plan};
use noded_keeper::paths::RuntimePaths;
use noded_keeper::protocol::{
    Event, Exit, Message, OsSignal, Request, Response, SpawnRequest, StdioSource, TaskKey,
};
use tempfile::TempDir;

use super::sandbox::Sandbox;
use crate::Bench;

/// keeper's records must not wait for a disk: its directory is on a tmpfs.
const TMPFS: &str = "/dev/shm";
/// How long keeper may take to listen, and to send anything that is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a task may take from clone to exec.
const START_TIMEOUT_MS: u64 = 10_000;
/// Between a stop signal and the kill; the tasks here do not need it.
const KILL_AFTER_MS: u64 = 5000;
/// How long one cgroup of a killed task may take to be empty.
const REMOVE_PATIENCE: Patience = Patience::Milliseconds(5000);
const TERM: i32 = nix::libc::SIGTERM;
const TASK: &str = "task";

/// A running keeper and its only client.
#[derive(Debug)]
pub(super) struct Keeper {
    connection: Connection,
    daemon: Daemon,
    tasks: Tasks,
    _run_dir: TempDir,
}

/// Cgroups of the tasks, apart from the connection: several threads prepare tasks.
#[derive(Debug)]
pub(super) struct Tasks {
    /// `None` once keeper has ended.
    hierarchy: Option<Hierarchy>,
    folder: PathBuf,
}

/// A task that waits for its start.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) key: TaskKey,
    path: TaskPath,
    network: OwnedFd,
    plan: OwnedFd,
}

impl Keeper {
    /// Starts a keeper with a cgroup of its own.
    ///
    /// # Errors
    /// It does not start or listen.
    pub(super) fn start(bench: &Bench, name: &str) -> anyhow::Result<Self> {
        let run_dir = tempfile::Builder::new()
            .prefix("drover-bench-")
            .tempdir_in(TMPFS)?;
        let paths = RuntimePaths::new(run_dir.path());
        paths.create()?;
        let base = format!("drover-bench-{}-{name}", std::process::id());
        let hierarchy = Hierarchy::open(Path::new(&base))?;
        let folder = find_mount()?.path.join(hierarchy.base()).join(TASKS);
        let text = |path: &Path| path.to_str().map(str::to_owned).context("no UTF-8");
        let (run, cgroups) = (text(run_dir.path())?, text(&folder)?);
        let arguments = ["keeper", "--runtime-dir", &run, "--cgroup-base", &cgroups];
        let program = bench.programs.join("noded-keeper");
        let log = bench.scratch.join(format!("keeper-{name}.log"));
        let mut daemon = Daemon::start("keeper", &program, &arguments, &log, &Place::Here)?;
        let deadline = Instant::now() + PATIENCE;
        let connection = loop {
            daemon.must_run()?;
            match Connection::connect(&paths) {
                Ok(connection) => break connection,
                Err(error) if Instant::now() > deadline => {
                    return Err(error).with_context(|| daemon.log_end());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        Ok(Self {
            connection,
            daemon,
            tasks: Tasks {
                hierarchy: Some(hierarchy),
                folder,
            },
            _run_dir: run_dir,
        })
    }

    /// keeper's process id.
    pub(super) fn id(&self) -> u32 {
        self.daemon.id()
    }

    /// The cgroups and the connection, for different threads.
    pub(super) fn parts(&mut self) -> (&Tasks, &mut Connection) {
        (&self.tasks, &mut self.connection)
    }

    /// The directory of the tasks' cgroups.
    pub(super) fn cgroups(&self) -> &Path {
        &self.tasks.folder
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Tasks are keeper's children and outlive it: their cgroups are killed.
        let _ = self.daemon.kill();
        let removed = self
            .tasks
            .hierarchy
            .take()
            .map(|it| it.remove(REMOVE_PATIENCE));
        for error in removed.and_then(Result::err).into_iter().flatten() {
            eprintln!("left behind: {error}");
        }
    }
}

impl Tasks {
    fn hierarchy(&self) -> anyhow::Result<&Hierarchy> {
        self.hierarchy.as_ref().context("keeper has ended")
    }

    /// Does what a start needs: a network namespace with its loopback up, a cgroup, a sealed plan.
    ///
    /// # Errors
    /// The kernel refuses one of them.
    pub(super) fn prepare(&self, number: u64, sandbox: &Sandbox) -> anyhow::Result<Prepared> {
        let network = netns::create_loopback_only()?;
        let key = TaskKey::new(format!("bench-{number}"), TASK, 1)?;
        let path = TaskPath::new(key.alloc(), &format!("{TASK}.1"))?;
        self.hierarchy()?.create_task(&path)?;
        let plan = seal_plan(&sandbox.plan()?)?;
        Ok(Prepared {
            key,
            path,
            network,
            plan,
        })
    }

    /// Removes the cgroup of a task that ended.
    ///
    /// # Errors
    /// Something still lives in it.
    pub(super) fn remove(&self, alloc: &str) -> anyhow::Result<()> {
        let removed = self
            .hierarchy()?
            .remove_alloc(alloc, Patience::Milliseconds(1000));
        removed.map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("remove the cgroup of {alloc}: {}", errors.join("; "))
        })
    }
}

/// Sends the request for a start. `stdout` is where the program's output goes; without it, nowhere.
///
/// # Errors
/// keeper is gone.
pub(super) fn spawn(
    connection: &mut Connection,
    prepared: &Prepared,
    stdout: Option<&OwnedFd>,
) -> anyhow::Result<()> {
    let request = Request::Spawn(SpawnRequest {
        key: prepared.key.clone(),
        cgroup: prepared.path.to_string(),
        stdin: StdioSource::Null,
        stdout: match stdout {
            Some(_) => StdioSource::Descriptor { position: 2 },
            None => StdioSource::Null,
        },
        stderr: StdioSource::Null,
        network: Some(1),
        target: None,
        start_timeout_ms: START_TIMEOUT_MS,
    });
    let mut descriptors = vec![prepared.plan.as_fd(), prepared.network.as_fd()];
    descriptors.extend(stdout.map(OwnedFd::as_fd));
    send(connection, &request, &descriptors)
}

fn send(
    connection: &mut Connection,
    request: &Request,
    descriptors: &[BorrowedFd<'_>],
) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match connection.send(request, descriptors) {
            Ok(_) => return Ok(()),
            // keeper takes the packets in the socket's buffer first.
            Err(ConnectionError::Send(errno))
                if errno.raw_os_error() == Errno::EAGAIN as i32 && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_micros(100));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Asks for the end of a task, as `job stop` does.
///
/// # Errors
/// keeper is gone.
pub(super) fn stop(connection: &mut Connection, key: TaskKey) -> anyhow::Result<()> {
    let request = Request::Stop {
        key,
        signal: OsSignal(TERM),
        kill_after_ms: KILL_AFTER_MS,
    };
    send(connection, &request, &[])
}

/// Lets keeper forget a task that ended.
///
/// # Errors
/// keeper is gone.
pub(super) fn forget(connection: &mut Connection, key: &TaskKey) -> anyhow::Result<()> {
    let alloc = key.alloc().to_owned();
    send(connection, &Request::Acknowledge { key: key.clone() }, &[])?;
    send(connection, &Request::Forget { alloc }, &[])
}

/// The next event that arrives within `patience`; answers that came before it must be no refusals.
///
/// # Errors
/// keeper is gone, refused a request, or could not start a program.
pub(super) fn event(
    connection: &mut Connection,
    patience: Duration,
) -> anyhow::Result<Option<Event>> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match connection.recv_within(left)? {
            Some(Message::Event(Event::SpawnFailed { key, failure })) => {
                bail!(
                    "the start of {key} failed: {}: errno {}",
                    failure.step,
                    failure.errno
                )
            }
            Some(Message::Event(event)) => return Ok(Some(event)),
            Some(Message::Response {
                response: Response::Refused(refusal),
                ..
            }) => bail!("keeper refused a request: {refusal}"),
            Some(Message::Response { .. }) => {}
            None => return Ok(None),
        }
    }
}

/// Waits until a task ended.
///
/// # Errors
/// As [`event`], or the task does not end in time.
pub(super) fn exit(connection: &mut Connection, wanted: &TaskKey) -> anyhow::Result<Exit> {
    loop {
        match event(connection, PATIENCE)? {
            Some(Event::Exited { key, exit }) if key == *wanted => return Ok(exit),
            Some(_) => {}
            None => ensure!(false, "{wanted} did not end within {PATIENCE:?}"),
        }
    }
}
