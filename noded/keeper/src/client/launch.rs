//! Finds keeper and pump, and starts them where nothing else (systemd) does. Then both detach
//! themselves: they are nobody's children and in nobody's session.

use super::{Connection, ConnectionError};
use crate::lock::{Lock, LockError};
use crate::paths::{PathsError, RuntimePaths};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Attempts to reach a process that was just started, and the pause between two: two seconds in
/// all.
const ATTEMPTS_MAX: u32 = 200;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

/// Who starts the two processes, and starts them again when they died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    /// Whoever needs them: this library.
    Client,
    /// A service manager. Starting them here as well would be a race that its services lose for
    /// ever: the lock is taken, and the one that holds it is none of theirs.
    ServiceManager,
}

/// How to start the two processes.
#[derive(Debug, Clone)]
pub struct Launch {
    pub starter: Starter,
    /// The `noded-keeper` binary.
    pub program: PathBuf,
    pub paths: RuntimePaths,
    /// The directory of cgroup v2 below which every task cgroup lies.
    pub cgroup_base: PathBuf,
    /// A cgroup for the processes themselves, so that stopping noded's does not stop them; made
    /// when missing.
    pub supervisor_cgroup: Option<PathBuf>,
}

/// Why a process could not be started or reached.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("the runtime directory cannot be used")]
    Paths(#[source] PathsError),
    #[error("the file for messages {} cannot be opened", .path.display())]
    Messages {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} cannot be started", .program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{subcommand} failed to detach: {status}; its messages are in {}", .messages.display())]
    Detach {
        subcommand: &'static str,
        status: ExitStatus,
        messages: PathBuf,
    },
    #[error("keeper was started but does not answer; its messages are in {}", .messages.display())]
    Unreachable {
        messages: PathBuf,
        #[source]
        source: ConnectionError,
    },
    #[error("the running keeper cannot be spoken to")]
    Incompatible(#[source] ConnectionError),
    #[error("pump was started but is not there; its messages are in {}", .messages.display())]
    PumpMissing { messages: PathBuf },
    #[error("{service} is not running, and starting it is left to the service manager")]
    Absent { service: &'static str },
    #[error("pump's lock cannot be examined")]
    PumpLock(#[source] LockError),
    #[error("it is not known which build of pump runs")]
    PumpBuild(#[source] super::UpgradeError),
    #[error("a pump of another build does not end")]
    PumpEnd(#[source] Errno),
}

/// Connects to keeper, starting it first where none listens and nobody else does. Waits at most a
/// few seconds.
///
/// # Errors
/// Where it is not there and cannot or must not be started, or does not answer. A running keeper
/// that shares no version is never replaced: it has the tasks.
pub fn ensure_running(launch: &Launch) -> Result<Connection, LaunchError> {
    launch.paths.create().map_err(LaunchError::Paths)?;
    match Connection::connect(&launch.paths) {
        Ok(connection) => return Ok(connection),
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(LaunchError::Incompatible(error)),
    }
    if launch.starter == Starter::ServiceManager {
        let service = "keeper";
        return Err(LaunchError::Absent { service });
    }
    let messages = start(launch, "keeper")?;
    let mut attempt = 1;
    loop {
        match Connection::connect(&launch.paths) {
            Ok(connection) => return Ok(connection),
            Err(error) if is_absent(&error) && attempt < ATTEMPTS_MAX => {
                attempt += 1;
                sleep(ATTEMPT_PAUSE);
            }
            Err(source) => return Err(LaunchError::Unreachable { messages, source }),
        }
    }
}

/// Starts pump where none holds the lock and nobody else does. Waits at most a few seconds.
///
/// # Errors
/// Where it is not there and cannot or must not be started, or does not take its lock.
pub fn ensure_pump_running(launch: &Launch) -> Result<(), LaunchError> {
    launch.paths.create().map_err(LaunchError::Paths)?;
    if pump_is_running(&launch.paths)? {
        return Ok(());
    }
    if launch.starter == Starter::ServiceManager {
        return Err(LaunchError::Absent { service: "pump" });
    }
    let messages = start(launch, "pump")?;
    for _ in 0..ATTEMPTS_MAX {
        if pump_is_running(&launch.paths)? {
            return Ok(());
        }
        sleep(ATTEMPT_PAUSE);
    }
    Err(LaunchError::PumpMissing { messages })
}

fn pump_is_running(paths: &RuntimePaths) -> Result<bool, LaunchError> {
    match Lock::probe(&paths.pump_lock()) {
        Ok(()) => Ok(false),
        Err(LockError::Held { .. }) => Ok(true),
        Err(error) => Err(LaunchError::PumpLock(error)),
    }
}

fn start(launch: &Launch, subcommand: &'static str) -> Result<PathBuf, LaunchError> {
    let messages = launch.paths.root().join(format!("{subcommand}.messages"));
    let file = open_messages(&messages).map_err(|source| LaunchError::Messages {
        path: messages.clone(),
        source,
    })?;
    let program = launch.program.clone();
    let mut command = Command::new(&program);
    command
        .arg(subcommand)
        .arg("--detach")
        .arg("--runtime-dir")
        .arg(launch.paths.root());
    if subcommand == "keeper" {
        command.arg("--cgroup-base").arg(&launch.cgroup_base);
    }
    if let Some(cgroup) = &launch.supervisor_cgroup {
        command.arg("--supervisor-cgroup").arg(cgroup);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .current_dir("/");
    let status = command.status().map_err(|source| LaunchError::Start {
        program: program.clone(),
        source,
    })?;
    if status.success() {
        Ok(messages)
    } else {
        Err(LaunchError::Detach {
            subcommand,
            status,
            messages,
        })
    }
}

fn open_messages(path: &PathBuf) -> std::io::Result<File> {
    // Whoever writes to it keeps it small.
    OpenOptions::new().create(true).append(true).open(path)
}

/// No socket, or a socket that nobody listens on: keeper was never started, or died.
fn is_absent(error: &ConnectionError) -> bool {
    let ConnectionError::Connect { source, .. } = error else {
        return false;
    };
    matches!(*source, Errno::NOENT | Errno::CONNREFUSED)
}
