//! Two calls on a pidfd for which no crate has a safe form.

use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `PIDFD_GET_INFO` with the first published size of `struct pidfd_info` (linux/pidfd.h, 6.13).
const GET_INFO: libc::Ioctl = 0xC040_FF0B;
/// The kernel keeps the exit code for holders of a pidfd that was opened while the process lived
/// (6.15).
const INFO_EXIT: u64 = 1 << 3;

/// `struct pidfd_info` in its first published size, 64 bytes.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup_id: u64,
    /// pid, tgid, ppid, and eight user and group ids.
    ids: [u32; 11],
    exit_code: i32,
}

/// The wait(2) status of a process that somebody else has reaped, where the kernel remembers it.
pub(crate) fn remembered_status(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let mut info = Info {
        mask: INFO_EXIT,
        ..Info::default()
    };
    // SAFETY: the request's number carries the size of `Info`, which is what the kernel writes at
    // most, and `info` lives through the call.
    let outcome = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO, &raw mut info) };
    (outcome == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_code)
}

/// Sends a signal that has no name (rustix takes only named ones from safe code).
pub(crate) fn send_realtime_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    let fd = libc::c_long::from(pidfd.as_raw_fd());
    let signal = libc::c_long::from(signal);
    let no_info = std::ptr::null::<libc::siginfo_t>();
    let no_flags: libc::c_long = 0;
    // SAFETY: the call reads no memory when the third argument is null; the kernel checks the other
    // arguments.
    let outcome =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, no_flags) };
    if outcome == 0 {
        Ok(())
    } else {
        let error = std::io::Error::last_os_error();
        Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
    }
}
