//! FIFOs of the io directory.

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// What a task's program may do with its own output when it opens it by name (`/dev/stdout`): that
/// asks for permission anew, whoever the program became. Nobody else gets there: the directory is
/// root's alone, and the way over a descriptor's name in /proc is open to its holder only.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// Makes a FIFO that its holders may open again; one that is there already is fine.
pub(crate) fn make_fifo(directory: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match fs::mknodat(directory, name, fs::FileType::Fifo, MODE, 0) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    // The umask does not count, and neither does what an earlier release made.
    fs::chmodat(directory, name, MODE, AtFlags::empty())
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
