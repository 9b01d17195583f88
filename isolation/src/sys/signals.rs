//! Signal state of a child before its program: actions and mask.

use rustix::io::Errno;

use super::check;

/// Highest signal number on Linux.
const LAST_SIGNAL: libc::c_int = 64;

/// Sets every action to its default. The two signals that cannot be caught and the two that the
/// C library keeps to itself refuse, which is as good.
pub(crate) fn reset_actions() {
    // SAFETY: sigaction is a plain structure for which all zeros is valid: SIG_DFL, no flags, an
    // empty mask.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: the structure lives through the call; a default action runs no code of ours.
        let _refused = unsafe { libc::sigaction(signal, &raw const default, std::ptr::null_mut()) };
    }
}

/// Blocks no signal.
pub(crate) fn empty_mask() -> Result<(), Errno> {
    let mask: u64 = 0;
    // SAFETY: the kernel's signal set is 64 bits here, and its size is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            std::ptr::null_mut::<u64>(),
            std::mem::size_of::<u64>(),
        )
    };
    check(result).map(drop)
}
