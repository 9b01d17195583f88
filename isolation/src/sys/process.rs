//! Calls that change the calling thread: identity, filters, keyring, scheduler, descriptors.
//!
//! A child after clone has one thread, so thread and process are the same there. glibc's wrappers
//! of the identity calls would talk to threads that exist only in the parent.

use std::os::fd::RawFd;

use rustix::io::Errno;

use super::check;
use crate::seccomp::Instruction;

/// Replaces the supplementary groups.
pub(crate) fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: the kernel reads `len` group ids of 32 bits.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    check(result).map(drop)
}

/// Real, effective and saved group, then user.
pub(crate) fn set_identity(uid: u32, gid: u32) -> Result<(), Errno> {
    // SAFETY: both calls take numbers only.
    check(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: as above.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }).map(drop)
}

/// Leaves the keeper's session keyring for a new one.
pub(crate) fn join_new_session_keyring() -> Result<(), Errno> {
    // SAFETY: a null name asks for an anonymous keyring; the rest is ignored.
    let result = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    };
    check(result).map(drop)
}

/// SCHED_OTHER.
pub(crate) fn normal_scheduler() -> Result<(), Errno> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure lives through the call; 0 is the caller itself.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_OTHER,
            &raw const parameters,
        )
    };
    check(result).map(drop)
}

/// Closes every descriptor from 3 on but these, which come back sorted.
pub(crate) fn close_all_but(keep: &mut [RawFd]) -> Result<(), Errno> {
    keep.sort_unstable();
    let mut first: u32 = 3;
    for kept in keep.iter().filter_map(|fd| u32::try_from(*fd).ok()) {
        if kept > first {
            close_range(first, kept - 1)?;
        }
        first = first.max(kept + 1);
    }
    close_range(first, u32::MAX)
}

fn close_range(first: u32, last: u32) -> Result<(), Errno> {
    // SAFETY: numbers only. Called by a child after clone, which never returns to the owners of
    // what is closed: those in its copy of the memory are never dropped.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    check(result).map(drop)
}

/// Marks all descriptors from `first` on as close-on-exec.
pub(crate) fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    // SAFETY: numbers only; nothing is closed before an exec.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    check(result).map(drop)
}

/// Sees the own cgroup as the root of the tree.
pub(crate) fn unshare_cgroup_namespace() -> Result<(), Errno> {
    // SAFETY: a cgroup namespace shares no memory and no descriptors.
    let result = unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWCGROUP) };
    check(result).map(drop)
}

/// Adds a system call filter to the calling thread.
pub(crate) fn install_filter(program: &[Instruction]) -> Result<(), Errno> {
    #[repr(C)]
    struct Program {
        len: libc::c_ushort,
        filter: *const Instruction,
    }
    let len = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::TOOBIG)?;
    let program = Program {
        len,
        filter: program.as_ptr(),
    };
    // SAFETY: Program has the layout of sock_fprog and Instruction that of sock_filter; the
    // kernel copies and checks the instructions. seccompiler's own function sets no_new_privs,
    // which is a step of its own here.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    check(result).map(drop)
}

/// Whether the kernel knows filters that return an errno.
pub(crate) fn seccomp_action_available() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one u32.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    check(result).is_ok()
}

/// The landlock ABI version, 0 where the kernel has none or it is off.
pub(crate) fn landlock_abi() -> u32 {
    /// LANDLOCK_CREATE_RULESET_VERSION
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads no memory and answers its version.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            VERSION,
        )
    };
    check(result)
        .ok()
        .and_then(|version| u32::try_from(version).ok())
        .unwrap_or(0)
}

/// Ends the process at once: no destructors, no handlers, no buffers.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: _exit never returns and touches no memory of ours.
    unsafe { libc::_exit(status) }
}
