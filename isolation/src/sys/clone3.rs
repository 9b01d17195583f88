//! clone3(2) in the form of fork: no shared memory, no stack of its own.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;

use super::check;

/// `struct clone_args` up to `cgroup` (CLONE_ARGS_SIZE_VER2, Linux 5.7).
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Bit 33, which libc's constant of 32 bits cannot hold (linux/sched.h).
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which of the two the caller is now.
pub(crate) enum Born {
    /// The new process. It must not unwind, nor allocate if other threads existed.
    Child,
    /// The caller, with a name for the child.
    Parent { pid: Pid, pidfd: OwnedFd },
}

/// Makes a child in `cgroup` and in the new namespaces of `flags`; SIGCHLD tells of its end.
pub(crate) fn clone3(flags: libc::c_int, cgroup: BorrowedFd<'_>) -> Result<Born, Errno> {
    let mut pidfd: libc::c_int = -1;
    let mut args = CloneArgs {
        flags: u64::from((flags | libc::CLONE_PIDFD).cast_unsigned()) | CLONE_INTO_CGROUP,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: cgroup.as_raw_fd() as u64,
        ..CloneArgs::default()
    };
    // SAFETY: args is a valid clone_args of the size given, and pidfd outlives the call. Without
    // CLONE_VM the child has a copy of this memory and returns here on a copy of this stack, as
    // after fork(2). No crate offers clone3 with CLONE_INTO_CGROUP.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw mut args,
            std::mem::size_of::<CloneArgs>(),
        )
    };
    let pid = check(result)?;
    if pid == 0 {
        return Ok(Born::Child);
    }
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(Errno::RANGE)?;
    // SAFETY: the call succeeded with CLONE_PIDFD, so the kernel stored a new descriptor that
    // nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Born::Parent { pid, pidfd })
}
