//! Making the running keeper and pump those of the binary beside noded: a package was upgraded,
//! and both outlive noded.

use super::{
    Connection, ConnectionError, EARLY_MESSAGES_MAX, GREETING_MAX, Launch, LaunchError,
    await_welcome, ensure_running, hello,
};
use crate::lock;
use crate::protocol::{Message, PROTOCOL_VERSIONS, Refusal, Request, Response};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an upgrade may take: keeper gives the new program ten seconds to look at its state.
const UPGRADE_MAX: Duration = Duration::from_secs(20);
/// How long pump may take to write what it has read.
const PUMP_END_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// What became of a keeper of another build.
#[derive(Debug)]
pub enum Upgrade {
    /// The keeper that runs is the program beside noded.
    NotNeeded,
    /// It is now; the tasks did not notice.
    Done,
    /// The old one goes on, and its tasks with it.
    NotDone(UpgradeError),
}

/// Why keeper is not the program beside noded.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    #[error("program {} cannot be compared with the one that runs", .path.display())]
    Compare {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the running keeper is of a release that cannot be upgraded in place")]
    TooOld,
    #[error("keeper does not become the program beside noded")]
    Refused(#[source] Refusal),
    #[error("the connection to keeper broke during its upgrade")]
    Connection(#[source] ConnectionError),
    #[error("keeper did not say within {UPGRADE_MAX:?} what became of its upgrade")]
    TimedOut,
    #[error("keeper said {response:?}, which is no answer to an upgrade")]
    Answer { response: Box<Response> },
    #[error("keeper still is another program after its upgrade")]
    Unchanged,
}

/// As [`ensure_running`]; a keeper that runs and is another build than `launch.program` is asked to
/// become it first. That fails without harm: the old keeper goes on, and the answer says why.
///
/// # Errors
/// Where no keeper can be started or spoken to.
pub fn ensure_current(launch: &Launch) -> Result<(Connection, Upgrade), LaunchError> {
    let mut connection = ensure_running(launch)?;
    match is_current(connection.welcome().keeper_pid, &launch.program) {
        Ok(true) => return Ok((connection, Upgrade::NotNeeded)),
        Ok(false) => {}
        Err(error) => return Ok((connection, Upgrade::NotDone(error))),
    }
    match connection.upgrade(&launch.program) {
        Ok(()) => Ok((connection, Upgrade::Done)),
        // It may have become the new program all the same and go by its records: a new connection
        // tells.
        Err(UpgradeError::Connection(error)) => {
            let connection = ensure_running(launch)?;
            let upgrade = match is_current(connection.welcome().keeper_pid, &launch.program) {
                Ok(true) => Upgrade::Done,
                Ok(false) => Upgrade::NotDone(UpgradeError::Connection(error)),
                Err(error) => Upgrade::NotDone(error),
            };
            Ok((connection, upgrade))
        }
        Err(error) => Ok((connection, Upgrade::NotDone(error))),
    }
}

/// Ends a pump of another build; [`super::ensure_pump_running`] then starts the right one. Nothing
/// is lost: it writes what it has read, and tasks' pipes are held by keeper meanwhile.
///
/// # Errors
/// Where it cannot be found, compared or ended.
pub fn end_outdated_pump(launch: &Launch) -> Result<(), LaunchError> {
    let path = launch.paths.pump_lock();
    let holder = || lock::holder(&path).map_err(LaunchError::PumpLock);
    let Some(pid) = holder()? else {
        return Ok(());
    };
    match is_current(pid.as_raw_pid().unsigned_abs(), &launch.program) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(error) => return Err(LaunchError::PumpBuild(error)),
    }
    lock::terminate(&path, pid).map_err(LaunchError::PumpLock)?;
    let end = Instant::now() + PUMP_END_MAX;
    while holder()? == Some(pid) {
        if Instant::now() > end {
            return Err(LaunchError::PumpEnd(Errno::TIMEDOUT));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

impl Connection {
    /// Asks keeper to become the program at `path`; waits until it is, or says no. On success
    /// [`Connection::welcome`] is the new keeper's.
    ///
    /// # Errors
    /// Where it does not; unless the connection broke the old one goes on and can be spoken to.
    pub fn upgrade(&mut self, path: &Path) -> Result<(), UpgradeError> {
        if self.welcome.protocol < u32::from(Request::Upgrade.since()) {
            return Err(UpgradeError::TooOld);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let program =
            fs::open(path, flags, Mode::empty()).map_err(|errno| UpgradeError::Compare {
                path: path.to_owned(),
                source: errno.into(),
            })?;
        let asked = self
            .send(&Request::Upgrade, &[program.as_fd()])
            .map_err(UpgradeError::Connection)?;
        let end = Instant::now() + UPGRADE_MAX;
        let mut early = std::mem::take(&mut self.early);
        while early.len() < EARLY_MESSAGES_MAX {
            let left = end.saturating_duration_since(Instant::now());
            match self.recv_within(left).map_err(UpgradeError::Connection)? {
                None => break,
                Some(Message::Response { call, response }) if call == asked => {
                    self.early = early;
                    return self.on_upgrade_answer(path, response);
                }
                Some(other) => early.push_back(other),
            }
        }
        self.early = early;
        Err(UpgradeError::TimedOut)
    }

    fn on_upgrade_answer(&mut self, path: &Path, response: Response) -> Result<(), UpgradeError> {
        match response {
            Response::Welcome {
                protocol,
                steps,
                keeper_pid,
            } => {
                self.welcome = super::Welcome {
                    protocol,
                    steps,
                    keeper_pid,
                };
                if !is_current(keeper_pid, path)? {
                    return Err(UpgradeError::Unchanged);
                }
                if protocol < PROTOCOL_VERSIONS.highest {
                    self.greet_again()?;
                }
                Ok(())
            }
            Response::Refused(refusal) => Err(UpgradeError::Refused(refusal)),
            other => Err(UpgradeError::Answer {
                response: Box::new(other),
            }),
        }
    }
}

impl Connection {
    /// The program of before agreed on a version of the packets, which the new one goes on with:
    /// it may speak a later one.
    fn greet_again(&mut self) -> Result<(), UpgradeError> {
        let asked = self.send(&hello(), &[]).map_err(UpgradeError::Connection)?;
        let greeted = await_welcome(&self.socket, asked, GREETING_MAX);
        let (welcome, early) = greeted.map_err(UpgradeError::Connection)?;
        self.welcome = welcome;
        self.early.extend(early);
        Ok(())
    }
}

/// Whether a process runs the program at `path` as it is there now: the same file, or another one
/// with the same content.
fn is_current(pid: u32, path: &Path) -> Result<bool, UpgradeError> {
    let running = PathBuf::from(format!("/proc/{pid}/exe"));
    let open = |path: &Path| {
        File::open(path).map_err(|source| UpgradeError::Compare {
            path: path.to_owned(),
            source,
        })
    };
    // The link leads to the file that is executed, also where it was replaced or removed.
    let (running, beside) = (open(&running)?, open(path)?);
    same_program(running, beside).map_err(|source| UpgradeError::Compare {
        path: path.to_owned(),
        source,
    })
}

fn same_program(mut one: File, mut other: File) -> std::io::Result<bool> {
    const CHUNK_BYTES: u64 = 64 * 1024;
    let (a, b) = (one.metadata()?, other.metadata()?);
    if (a.dev(), a.ino()) == (b.dev(), b.ino()) {
        return Ok(true);
    }
    if a.len() != b.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        Read::by_ref(&mut one)
            .take(CHUNK_BYTES)
            .read_to_end(&mut left)?;
        Read::by_ref(&mut other)
            .take(CHUNK_BYTES)
            .read_to_end(&mut right)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}
