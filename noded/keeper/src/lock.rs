//! One keeper and one pump per runtime directory: a lock that the kernel gives back however its
//! holder ends.

use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A probe holds the lock for microseconds; a process that runs holds it for days.
const ATTEMPTS_MAX: u32 = 5;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(5);

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("lock file {} cannot be opened", .path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("another process holds {}", .path.display())]
    Held { path: PathBuf },
    #[error("lock file {} cannot be locked", .path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("the process that holds {} cannot be asked to end", .path.display())]
    Signal {
        path: PathBuf,
        #[source]
        source: Errno,
    },
}

/// Held as long as it is not dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: OwnedFd,
}

impl Lock {
    /// One that this process took when it was another program.
    pub(crate) fn inherited(file: OwnedFd) -> Self {
        Self { file }
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Whether the lock is free, without taking it from whoever comes at the same moment: a shared
    /// lock for an instant does not stand in the way of [`Lock::take`], which tries more than once.
    pub(crate) fn probe(path: &Path) -> Result<(), LockError> {
        Self::open_and_lock(path, FlockOperation::NonBlockingLockShared).map(drop)
    }

    pub(crate) fn take(path: &Path) -> Result<Self, LockError> {
        let mut attempt = 1;
        loop {
            match Self::open_and_lock(path, FlockOperation::NonBlockingLockExclusive) {
                Err(LockError::Held { .. }) if attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    std::thread::sleep(ATTEMPT_PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    fn open_and_lock(path: &Path, operation: FlockOperation) -> Result<Self, LockError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|source| LockError::Open {
                path: path.to_owned(),
                source,
            })?;
        match fs::flock(&file, operation) {
            Ok(()) => Ok(Self { file }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held {
                path: path.to_owned(),
            }),
            Err(source) => Err(LockError::Lock {
                path: path.to_owned(),
                source,
            }),
        }
    }
}

/// The process that holds a lock, as the kernel lists it (proc_locks(5)); `None` where nobody does.
///
/// # Errors
/// Where the file or the list cannot be read.
pub fn holder(path: &Path) -> Result<Option<Pid>, LockError> {
    let failed = |source| LockError::Lock {
        path: path.to_owned(),
        source,
    };
    let metadata = match fs::stat(path) {
        Ok(metadata) => metadata,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    let device = metadata.st_dev;
    let file = format!(
        "{:02x}:{:02x}:{}",
        fs::major(device),
        fs::minor(device),
        metadata.st_ino
    );
    let locks = std::fs::read_to_string("/proc/locks")
        .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    Ok(find_holder(&locks, &file))
}

/// Asks the process `pid` to end (SIGTERM) if it holds a lock. Answers whether it did: a number may
/// be another process by now, and that is left alone.
///
/// # Errors
/// Where the lock cannot be looked at, or the kernel refuses the signal.
pub fn terminate(path: &Path, pid: Pid) -> Result<bool, LockError> {
    let failed = |source| LockError::Signal {
        path: path.to_owned(),
        source,
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(false),
        Err(errno) => return Err(failed(errno)),
    };
    // Whoever holds it now had the number when the descriptor was made.
    if holder(path)? != Some(pid) {
        return Ok(false);
    }
    match pidfd_send_signal(&process, Signal::TERM) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(errno) => Err(failed(errno)),
    }
}

fn find_holder(locks: &str, file: &str) -> Option<Pid> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, held, ..] = words.as_slice() else {
            return None;
        };
        let pid = pid.parse().ok().and_then(Pid::from_raw);
        pid.filter(|_| *held == file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        assert_eq!(holder(&path).unwrap(), None);
        let held = Lock::take(&path).unwrap();
        assert_eq!(holder(&path).unwrap(), Some(rustix::process::getpid()));
        drop(held);
        assert_eq!(holder(&path).unwrap(), None);
    }

    #[test]
    fn only_the_holder_of_a_lock_is_asked_to_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let mut stranger = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&stranger);
        assert!(!terminate(&path, pid).unwrap(), "nobody holds it");
        let held = Lock::take(&path).unwrap();
        assert!(!terminate(&path, pid).unwrap(), "another one does");
        assert!(stranger.try_wait().unwrap().is_none(), "it was left alone");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert!(!terminate(&path, pid).unwrap(), "it is gone");
        drop(held);
    }

    #[test]
    fn other_locks_are_passed_over() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 08:01:5 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 11 08:01:5 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 08:01:5 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 08:01:5 0 EOF\n";
        assert_eq!(find_holder(locks, "08:01:5"), Pid::from_raw(13));
        assert_eq!(find_holder(locks, "08:01:6"), None);
    }
}
