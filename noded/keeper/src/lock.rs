//! One keeper and one pump per runtime directory: a lock that the kernel gives back however its
//! holder ends.

use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
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
}

/// Held as long as it is not dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: OwnedFd,
}

impl Lock {
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
            Ok(()) => Ok(Self { _file: file }),
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
