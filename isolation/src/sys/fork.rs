//! fork(2) in a child that has not reached its program: by clone(2), which every filter of ours
//! lets through, where clone3(2) is answered with ENOSYS.

use rustix::io::Errno;

use super::check;

/// Which of the two the caller is now.
pub(crate) enum Forked {
    /// The new process. As after clone3 it must not unwind or allocate.
    Child,
    /// The caller, with the child's number in its own namespace.
    Parent(libc::c_long),
}

/// Makes a child that shares nothing; SIGCHLD tells of its end.
pub(crate) fn fork() -> Result<Forked, Errno> {
    const NONE: libc::c_long = 0;
    // SAFETY: without CLONE_VM and with a null stack both return here, on copies of this stack; no
    // other argument is read without its flag. The order of those differs between processors, which
    // does not matter to zeros.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::c_long::from(libc::SIGCHLD),
            NONE,
            NONE,
            NONE,
            NONE,
        )
    };
    match check(result)? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}
