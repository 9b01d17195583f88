//! Removing cgroups, deepest first. Goes on after a failure and returns all of them. An error names
//! the processes that keep a cgroup alive.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::error::CgroupError;
use super::hierarchy::{children, read_at, write};
use super::task::Events;

/// How long one wait for a dying process is.
const WAIT_MS: u32 = 10;

/// Deepest nesting that is followed; a task with the right to make cgroups could make more.
const DEPTH_MAX: usize = 32;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// What to do about a cgroup whose processes are still dying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Report it: for a caller that must not block and watches `cgroup.events` itself.
    None,
    /// Wait for it up to this long, per directory.
    Milliseconds(u32),
}

/// Processes that an error names.
const NAMED_MAX: usize = 8;

/// Kills every process in the cgroup `name` below `parent` and all below it (`cgroup.kill`), then
/// removes it as [`remove_subtree`] does.
///
/// # Errors
/// Everything that could not be killed or removed.
pub fn kill_and_remove_subtree(
    parent: BorrowedFd<'_>,
    name: &str,
    patience: Patience,
) -> Result<(), Vec<CgroupError>> {
    let killed = kill(parent, name);
    let removed = remove_subtree(parent, name, patience);
    match (killed, removed) {
        // What could not be killed is gone all the same.
        (_, Ok(())) => Ok(()),
        (Ok(()), Err(errors)) => Err(errors),
        (Err(error), Err(mut errors)) => {
            errors.insert(0, error);
            Err(errors)
        }
    }
}

fn kill(parent: BorrowedFd<'_>, name: &str) -> Result<(), CgroupError> {
    let path = PathBuf::from(name);
    match rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => write(directory.as_fd(), &path, "cgroup.kill", "1"),
        Err(Errno::NOENT) => Ok(()),
        Err(source) => Err(CgroupError::Open { path, source }),
    }
}

/// Removes the cgroup `name` below `parent` and all below it. One that is not there is removed
/// already.
///
/// # Errors
/// Everything that could not be removed.
pub fn remove_subtree(
    parent: BorrowedFd<'_>,
    name: &str,
    patience: Patience,
) -> Result<(), Vec<CgroupError>> {
    let mut errors = Vec::new();
    remove(
        parent,
        name,
        &PathBuf::from(name),
        patience,
        DEPTH_MAX,
        &mut errors,
    );
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

fn remove(
    parent: BorrowedFd<'_>,
    name: &str,
    path: &Path,
    patience: Patience,
    depth_left: usize,
    errors: &mut Vec<CgroupError>,
) {
    let directory = match rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return,
        Err(source) => {
            errors.push(CgroupError::Open {
                path: path.to_owned(),
                source,
            });
            return;
        }
    };
    if depth_left == 0 {
        errors.push(CgroupError::Remove {
            path: path.to_owned(),
            source: Errno::LOOP,
        });
        return;
    }
    let before = errors.len();
    match children(directory.as_fd(), path) {
        Ok(names) => {
            for child in names {
                let below = path.join(&child);
                remove(
                    directory.as_fd(),
                    &child,
                    &below,
                    patience,
                    depth_left - 1,
                    errors,
                );
            }
        }
        Err(error) => errors.push(error),
    }
    let path = path.to_owned();
    match remove_one(parent, name, directory.as_fd(), &path, patience) {
        Ok(()) => {}
        Err(Errno::BUSY) => match processes(directory.as_fd()) {
            Some(processes) => errors.push(CgroupError::Populated { path, processes }),
            // The cgroups below that remain are named already.
            None if errors.len() > before => {}
            None => {
                let source = Errno::BUSY;
                errors.push(CgroupError::Remove { path, source });
            }
        },
        Err(source) => errors.push(CgroupError::Remove { path, source }),
    }
}

/// The processes in a cgroup itself, by number and name; `None` = there is none.
fn processes(directory: BorrowedFd<'_>) -> Option<String> {
    let list = read_at(directory, "cgroup.procs").ok()?;
    let mut named: Vec<String> = list.lines().take(NAMED_MAX).map(describe).collect();
    let more = list.lines().count().saturating_sub(NAMED_MAX);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    (!named.is_empty()).then(|| named.join(", "))
}

fn describe(pid: &str) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim_end() {
        "" => pid.to_owned(),
        name => format!("{pid} ({name})"),
    }
}

/// EBUSY means processes, which may be dying; `cgroup.events` says when the last is gone.
fn remove_one(
    parent: BorrowedFd<'_>,
    name: &str,
    directory: BorrowedFd<'_>,
    path: &Path,
    patience: Patience,
) -> Result<(), Errno> {
    let waits = match patience {
        Patience::None => 0,
        Patience::Milliseconds(total) => total.div_ceil(WAIT_MS),
    };
    let events = Events::open(directory, path).ok();
    for _ in 0..waits {
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::BUSY) => {
                // Whatever it says, the next attempt decides.
                let _emptied = events.as_ref().map(|events| events.wait_empty(WAIT_MS));
            }
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}
