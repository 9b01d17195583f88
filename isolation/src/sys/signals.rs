//! Signal state of a child before its program: actions and mask.

use rustix::io::Errno;

use super::check;

/// Highest signal number on Linux.
const LAST_SIGNAL: libc::c_int = 64;

/// Sets every action to its default. The two signals that cannot be caught refuse, which is as
/// good. A raw call, because the C library keeps signals 32 and 33 to itself and leaves them
/// ignored where a parent ignored them.
pub(crate) fn reset_actions() {
    /// Handler, flags, restorer and mask of the kernel's structure: SIG_DFL, and none of them.
    const DEFAULT: [u64; 4] = [0; 4];
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: the kernel reads a `struct sigaction` of four 64-bit words here and is told
        // the size of the mask; a default action runs no code of ours.
        let _refused = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                std::ptr::null_mut::<u64>(),
                std::mem::size_of::<u64>(),
            )
        };
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
