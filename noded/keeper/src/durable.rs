//! Replaces a small file in one step, so that whoever reads it after a crash finds the old bytes or
//! the new, never half.
//!
//! There is no fsync: the directories are on a tmpfs, and a host crash ends what the files
//! describe.

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::{self, Errno};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Files beyond this size are not ours.
const FILE_BYTES_MAX: usize = 64 * 1024;

pub(crate) fn replace(
    directory: BorrowedFd<'_>,
    temporary: &str,
    target: &str,
    bytes: &[u8],
) -> Result<(), Errno> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(directory, temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let outcome = write_all(&file, bytes)
        .and_then(|()| fs::renameat(directory, temporary, directory, target));
    if outcome.is_err() {
        // The first error is the one to tell; a leftover is overwritten by the next attempt.
        let _ = fs::unlinkat(directory, temporary, AtFlags::empty());
    }
    outcome
}

pub(crate) fn read(directory: BorrowedFd<'_>, name: &str) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = fs::openat(directory, name, flags, Mode::empty())?;
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let mut length = 0;
    while length < bytes.len() {
        match io::read(&file, &mut bytes[length..]) {
            Ok(0) => {
                bytes.truncate(length);
                return Ok(bytes);
            }
            Ok(count) => length += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::FBIG)
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match io::write(file, bytes) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
