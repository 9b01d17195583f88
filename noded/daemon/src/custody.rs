//! Ending keeper and pump on purpose: `noded --config FILE --end-custody`.
//!
//! They outlive noded by design, so somebody has to say when a host is no node any more. Only when
//! nothing runs: a task is never taken along.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isolation::cgroup::{CgroupError, Hierarchy, Patience};
use isolation::scratch;
use noded_keeper::client::{Connection, ConnectionError};
use noded_keeper::lock::{self, LockError};
use noded_keeper::paths::RuntimePaths;
use noded_keeper::protocol::{Message, Refusal, Request, Response};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::config::Config;
use crate::executor::{NetworkError, Networks};

/// How long each of them may take to go.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// Why custody goes on.
#[derive(Debug, thiserror::Error)]
pub enum CustodyError {
    /// Another noded works with the same directory.
    #[error("noded is running with {}; stop it first", .path.display())]
    NodedRuns {
        /// The directory.
        path: PathBuf,
    },
    /// The lock could not be taken.
    #[error("locking {}", .path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// keeper could not be asked.
    #[error("asking keeper to end")]
    Keeper(#[source] ConnectionError),
    /// keeper has something to keep.
    #[error("keeper goes on")]
    Refused(#[source] Refusal),
    /// It did not answer.
    #[error("{0} does not end")]
    Stuck(&'static str),
    /// Nobody knows who holds a lock.
    #[error("finding keeper and pump")]
    Holder(#[source] LockError),
    /// pump could not be told.
    #[error("asking pump to end")]
    Pump(#[source] LockError),
    /// A memory file system remains.
    #[error("{count} secrets directories could not be unmounted")]
    Secrets {
        /// How many.
        count: usize,
        /// The first.
        #[source]
        source: scratch::ScratchError,
    },
    /// A network namespace remains.
    #[error("{count} network namespaces could not be let go")]
    Networks {
        /// How many.
        count: usize,
        /// One of them.
        #[source]
        source: NetworkError,
    },
    /// A cgroup remains.
    #[error("{count} cgroups could not be removed")]
    Cgroups {
        /// How many.
        count: usize,
        /// The first.
        #[source]
        source: CgroupError,
    },
}

/// Held by the one noded of a data directory, as long as it is not dropped.
#[derive(Debug)]
pub struct NodeLock {
    _file: File,
}

impl NodeLock {
    /// Takes the lock of the directory that holds identity and journal.
    ///
    /// # Errors
    /// Where another noded holds it, or it cannot be made.
    pub fn take(directory: &Path) -> Result<Self, CustodyError> {
        let path = directory.join("lock");
        let failed = |source| CustodyError::Lock {
            path: path.clone(),
            source,
        };
        let file = File::create(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(CustodyError::NodedRuns {
                path: directory.to_owned(),
            }),
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

/// Ends keeper and pump, and removes the cgroups. What is not there is ended already.
///
/// # Errors
/// Where noded or a task still runs, or something does not go.
pub fn end(config: &Config) -> Result<(), CustodyError> {
    let _lock = match NodeLock::take(&config.node_dir()) {
        Ok(lock) => Some(lock),
        // There never was a node here.
        Err(CustodyError::Lock { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            None
        }
        Err(error) => return Err(error),
    };
    let paths = RuntimePaths::new(&config.run_dir);
    end_keeper(&paths)?;
    end_pump(&paths)?;
    remove_cgroups(&config.cgroup_base)?;
    release_networks(&config.run_dir)?;
    unmount_secrets(&config.alloc_root())
}

/// A daemon that was killed may have left one; no task is in it any more.
fn release_networks(run_dir: &Path) -> Result<(), CustodyError> {
    let mut failed = Networks::below(run_dir).release_all();
    let count = failed.len();
    failed.pop().map_or(Ok(()), |source| {
        Err(CustodyError::Networks { count, source })
    })
}

/// Allocations that are over keep their files, and until they go the memory for their secrets.
fn unmount_secrets(alloc_root: &Path) -> Result<(), CustodyError> {
    let below = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect()
    };
    let secrets: Vec<PathBuf> = below(alloc_root)
        .iter()
        .flat_map(|alloc| below(alloc))
        .map(|task| task.join("secrets"))
        .collect();
    scratch::unmount_all(&secrets).map_err(|mut errors| CustodyError::Secrets {
        count: errors.len(),
        source: errors.swap_remove(0),
    })
}

fn end_keeper(paths: &RuntimePaths) -> Result<(), CustodyError> {
    let mut connection = match Connection::connect(paths) {
        Ok(connection) => connection,
        Err(ConnectionError::Connect {
            source: Errno::NOENT | Errno::CONNREFUSED,
            ..
        }) => return Ok(()),
        Err(error) => return Err(CustodyError::Keeper(error)),
    };
    connection
        .send(&Request::Shutdown, &[])
        .map_err(CustodyError::Keeper)?;
    loop {
        match connection.recv_within(PATIENCE) {
            Ok(Some(Message::Response {
                response: Response::Refused(refusal),
                ..
            })) => return Err(CustodyError::Refused(refusal)),
            Ok(Some(_)) => {}
            Err(ConnectionError::Closed | ConnectionError::Receive(_)) => {
                return until_free(&paths.keeper_lock(), "keeper");
            }
            Ok(None) => return Err(CustodyError::Stuck("keeper")),
            Err(error) => return Err(CustodyError::Keeper(error)),
        }
    }
}

fn end_pump(paths: &RuntimePaths) -> Result<(), CustodyError> {
    let path = paths.pump_lock();
    let Some(pid) = holder(&path)? else {
        return Ok(());
    };
    lock::terminate(&path, pid).map_err(CustodyError::Pump)?;
    until_free(&path, "pump")
}

fn until_free(path: &Path, who: &'static str) -> Result<(), CustodyError> {
    let end = Instant::now() + PATIENCE;
    while holder(path)?.is_some() {
        if Instant::now() > end {
            return Err(CustodyError::Stuck(who));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn holder(path: &Path) -> Result<Option<Pid>, CustodyError> {
    lock::holder(path).map_err(CustodyError::Holder)
}

fn remove_cgroups(base: &Path) -> Result<(), CustodyError> {
    let Ok(hierarchy) = Hierarchy::open(base) else {
        return Ok(());
    };
    let millis = u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX);
    hierarchy
        .remove(Patience::Milliseconds(millis))
        .map_err(|mut errors| CustodyError::Cgroups {
            count: errors.len(),
            source: errors.swap_remove(0),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_noded() {
        let directory = tempfile::tempdir().unwrap();
        let first = NodeLock::take(directory.path()).unwrap();
        let error = NodeLock::take(directory.path()).unwrap_err();
        assert!(matches!(error, CustodyError::NodedRuns { .. }), "{error}");
        drop(first);
        NodeLock::take(directory.path()).unwrap();
    }
}
