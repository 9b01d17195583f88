//! The file that a Unix socket is bound to, for which no crate has a safe form.

use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `SIOCUNIXFILE` (linux/un.h, 4.16): answers an `O_PATH` descriptor.
const UNIX_FILE: libc::Ioctl = 0x89E0;

/// The file, which may have lost its name.
pub(crate) fn of(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // SAFETY: the request takes no argument, so the call reads and writes no memory.
    let number: RawFd = unsafe { libc::ioctl(socket.as_raw_fd(), UNIX_FILE, 0) };
    if number < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    }
    // SAFETY: the kernel has just made this descriptor, so nothing else owns it.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    // The kernel makes it with this mark; another one would reach every child.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC)?;
    Ok(file)
}
