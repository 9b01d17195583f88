//! The lock of the io directory (flock(2)): between those who make streams and who removes them.

use super::StreamsError;
use crate::paths::RuntimePaths;
use rustix::fs::{self, FlockOperation};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A pump that was stopped by a signal, in the few microseconds that it holds the lock, must not
/// hold its client for ever.
pub(super) fn lock_patiently(
    paths: &RuntimePaths,
    directory: BorrowedFd<'_>,
    flock: FlockOperation,
) -> Result<(), StreamsError> {
    const ATTEMPTS: u32 = 1000;
    const PAUSE: Duration = Duration::from_millis(1);
    let mut attempt = 1;
    loop {
        match fs::flock(directory, flock) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) if attempt < ATTEMPTS => {
                attempt += 1;
                std::thread::sleep(PAUSE);
            }
            Err(source) => {
                let path = paths.io_directory();
                return Err(StreamsError::Locked { path, source });
            }
        }
    }
}

/// Runs `work` while nobody makes streams; `None`, and not run, where somebody does.
pub(crate) fn with_lock<T>(directory: BorrowedFd<'_>, work: impl FnOnce() -> T) -> Option<T> {
    fs::flock(directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    let outcome = work();
    // It fails for no descriptor that could be locked.
    let _ = fs::flock(directory, FlockOperation::Unlock);
    Some(outcome)
}
