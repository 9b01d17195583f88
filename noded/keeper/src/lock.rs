//! One keeper and one pump per runtime directory: a lock that the kernel gives back however its holder ends.

use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

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
    pub(crate) fn take(path: &Path) -> Result<Self, LockError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|source| LockError::Open {
                path: path.to_owned(),
                source,
            })?;
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
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
