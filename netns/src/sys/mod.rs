//! unshare(2) for networks.

use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread to a new, empty network namespace.
pub(crate) fn unshare_network() -> Result<(), Errno> {
    // SAFETY: the unsafe case of unshare is CLONE_FILES, where a thread may lose sight of
    // descriptors; a network namespace shares no memory and no descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}
