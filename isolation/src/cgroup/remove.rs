//! Removing cgroups, deepest first. Goes on after a failure and returns all of them.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::error::CgroupError;
use super::hierarchy::children;
use super::task::Events;

/// How long one wait for a dying process is.
const WAIT_MS: u32 = 10;

/// Deepest nesting that is followed; a task with the right to make cgroups could make more.
const DEPTH_MAX: usize = 32;

/// What to do about a cgroup whose processes are still dying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Report it: for a caller that must not block and watches `cgroup.events` itself.
    None,
    /// Wait for it up to this long, per directory.
    Milliseconds(u32),
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
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let directory = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
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
    if let Err(source) = remove_one(parent, name, directory.as_fd(), path, patience) {
        errors.push(CgroupError::Remove {
            path: path.to_owned(),
            source,
        });
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
