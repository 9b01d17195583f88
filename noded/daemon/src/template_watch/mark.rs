//! How a changed file is told from an unchanged one, without reading it.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::fstat;

/// A file's identity, size and time of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMark {
    inode: u64,
    bytes: i64,
    seconds: i64,
    nanoseconds: u64,
}

impl FileMark {
    /// The mark of an open file.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Self> {
        let about = fstat(file)?;
        Ok(Self {
            inode: about.st_ino,
            bytes: about.st_size,
            seconds: about.st_mtime,
            nanoseconds: about.st_mtime_nsec,
        })
    }

    #[cfg(test)]
    pub(crate) fn numbered(number: u64) -> Self {
        Self {
            inode: number,
            bytes: 0,
            seconds: 0,
            nanoseconds: 0,
        }
    }
}
