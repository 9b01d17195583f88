//! FIFOs of the io directory.

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Makes a FIFO of mode 0600; one that is there already is fine.
pub(crate) fn make_fifo(directory: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    match fs::mknodat(directory, name, fs::FileType::Fifo, mode, 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Whether reads and writes on a FIFO wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For a task's own descriptor: programs do not expect `EAGAIN` from their standard output.
    Blocking,
    NonBlocking,
}

/// Opens a FIFO for reading and writing: the holder sees neither end of file nor SIGPIPE, and
/// neither does whoever has the other end (fifo(7)).
pub(crate) fn open_fifo(
    directory: BorrowedFd<'_>,
    name: &str,
    waiting: Waiting,
) -> Result<OwnedFd, Errno> {
    if name.is_empty() || name.contains('/') {
        return Err(Errno::INVAL);
    }
    let mut flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    if waiting == Waiting::NonBlocking {
        flags |= OFlags::NONBLOCK;
    }
    let fifo = fs::openat(directory, name, flags, Mode::empty())?;
    let kind = fs::FileType::from_raw_mode(fs::fstat(&fifo)?.st_mode);
    if kind == fs::FileType::Fifo {
        Ok(fifo)
    } else {
        Err(Errno::INVAL)
    }
}
