//! Ending keeper and pump on purpose: `noded --config FILE --end-custody`.
//!
//! They outlive noded by design, so somebody has to say when a host is no node any more. Only when
//! nothing runs: a task that keeper knows, or has on record, is never taken along.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isolation::cgroup::{Hierarchy, Patience, TASKS, TaskPath};
use isolation::scratch;
use netns::Obstacle;
use noded_keeper::client::{Connection, ConnectionError};
use noded_keeper::keeper::{KeeperError, is_base_used, unfinished_cgroups};
use noded_keeper::lock::{self, LockError};
use noded_keeper::paths::RuntimePaths;
use noded_keeper::protocol::{Message, Refusal, Request, Response};
use protocol_error_chain::chain;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::config::Config;
use crate::identity::NodeIdentity;
use crate::networks::{self, NetworkError, Networks};

/// How long each of them may take to go.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
/// Cgroups that an error names.
const NAMED_MAX: usize = 8;

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
    /// keeper is dead and tasks that it recorded still run.
    #[error(
        "keeper does not run, and {count} of its tasks do, in the cgroups {named}; start noded, \
         which starts keeper again, stop the tasks' jobs or drain the node, then repeat this"
    )]
    TasksRun {
        /// How many.
        count: usize,
        /// The first of their cgroups.
        named: String,
    },
    /// Its records could not be read.
    #[error("reading keeper's records")]
    Records(#[source] KeeperError),
    /// Another node's keeper runs tasks in the same cgroups.
    #[error(
        "another keeper runs tasks in the cgroups below {}; end that node first, and give each \
         node of this host a cgroup_base of its own", .base.display()
    )]
    BaseShared {
        /// Below the mount of cgroup v2.
        base: PathBuf,
    },
    /// Whether another keeper uses the cgroups is unknown.
    #[error("cannot see whether another keeper uses the cgroups below {}", .base.display())]
    BaseLock {
        /// Below the mount of cgroup v2.
        base: PathBuf,
        /// What the kernel says.
        #[source]
        source: Errno,
    },
    /// A cgroup remains.
    #[error("{count} cgroups could not be removed: {named}")]
    Cgroups {
        /// How many.
        count: usize,
        /// The first of them, each with the processes in it.
        named: String,
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

/// Ends keeper and pump, kills processes that neither of them knows, and removes the cgroups. What
/// is not there is ended already.
///
/// # Errors
/// Where noded or a task that keeper knows still runs, or something does not go.
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
    if end_keeper(&paths)? == Asked::Nobody {
        check_recorded_tasks(&paths, &config.cgroup_base)?;
    }
    end_pump(&paths)?;
    remove_cgroups(&config.cgroup_base)?;
    release_networks(config)?;
    unmount_secrets(&config.alloc_root())
}

/// A daemon that was killed may have left one; no task is in it any more.
fn release_networks(config: &Config) -> Result<(), CustodyError> {
    let mut failed = Networks::below(&config.run_dir, None).release_all();
    failed.extend(delete_table(config).err());
    let count = failed.len();
    failed.pop().map_or(Ok(()), |source| {
        Err(CustodyError::Networks { count, source })
    })
}

/// The table of a node's mapped ports, where it ever had one.
fn delete_table(config: &Config) -> Result<(), NetworkError> {
    let identity = NodeIdentity::load(&config.node_dir()).ok().flatten();
    // A damaged identity names no table; noded refuses to start with it, and says so.
    let layout = identity.map(|identity| networks::layout(config.network, identity.id));
    let Some(Ok(layout)) = layout else {
        return Ok(());
    };
    // A host without nftables never had a table of ours.
    let is_without = |obstacle: &Obstacle| {
        matches!(obstacle, Obstacle::NftMissing | Obstacle::NftRefused { .. })
    };
    let obstacles = netns::obstacles(&layout, config.network.forwarding);
    if obstacles.is_ok_and(|found| found.iter().any(is_without)) {
        return Ok(());
    }
    netns::Table::new(layout)
        .delete()
        .map_err(NetworkError::Table)
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

/// Whether keeper was there to say that it has no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Keeper,
    Nobody,
}

fn end_keeper(paths: &RuntimePaths) -> Result<Asked, CustodyError> {
    let mut connection = match Connection::connect(paths) {
        Ok(connection) => connection,
        Err(ConnectionError::Connect {
            source: Errno::NOENT | Errno::CONNREFUSED,
            ..
        }) => return Ok(Asked::Nobody),
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
                return until_free(&paths.keeper_lock(), "keeper").map(|()| Asked::Keeper);
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

/// Sees that no task runs of which a keeper that died left a record.
fn check_recorded_tasks(paths: &RuntimePaths, base: &Path) -> Result<(), CustodyError> {
    let recorded = unfinished_cgroups(paths).map_err(CustodyError::Records)?;
    if recorded.is_empty() {
        return Ok(());
    }
    let Ok(hierarchy) = Hierarchy::open(base) else {
        return Ok(());
    };
    let runs = |cgroup: &String| {
        let path = cgroup.split_once('/');
        let path = path.and_then(|(alloc, task)| TaskPath::new(alloc, task).ok());
        let opened = path.and_then(|path| hierarchy.open_task(&path).ok());
        opened.is_some_and(|cgroup| cgroup.populated().unwrap_or(true))
    };
    let running: Vec<String> = recorded.into_iter().filter(runs).collect();
    match running.len() {
        0 => Ok(()),
        count => Err(CustodyError::TasksRun {
            count,
            named: first_of(&running),
        }),
    }
}

fn first_of(all: &[String]) -> String {
    let named = &all[..all.len().min(NAMED_MAX)];
    let rest = if named.len() < all.len() { ", ..." } else { "" };
    format!("{}{rest}", named.join(", "))
}

fn remove_cgroups(base: &Path) -> Result<(), CustodyError> {
    let Ok(hierarchy) = Hierarchy::open(base) else {
        return Ok(());
    };
    let tasks = hierarchy.mount().path.join(base).join(TASKS);
    let base = base.to_owned();
    match is_base_used(&tasks) {
        Ok(false) => {}
        Ok(true) => return Err(CustodyError::BaseShared { base }),
        Err(source) => return Err(CustodyError::BaseLock { base, source }),
    }
    let millis = u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX);
    hierarchy
        .remove(Patience::Milliseconds(millis))
        .map_err(|errors| CustodyError::Cgroups {
            count: errors.len(),
            named: first_of(&errors.iter().map(|error| chain(error)).collect::<Vec<_>>()),
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
