//! wait(2) for any child, with the whole status: rustix hides the core-dump bit, and nix loses
//! children that a real-time signal ended.

/// The pid and status of a child that ended, if there is one. It is gone from the process table
/// afterwards.
pub(crate) fn reap_any() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for an int through the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    // 0: no child has ended; -1: there is no child at all. A signal cannot interrupt a call that
    // does not wait.
    (pid > 0).then_some((pid, status))
}
