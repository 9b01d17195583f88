//! mount_setattr(2), which rustix lacks.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::check;

/// Adds attributes to the mount that `mount` is the root of and to all below it.
pub(crate) fn mount_setattr(mount: BorrowedFd<'_>, set: MountAttrFlags) -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set: u64::from(set.bits()),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is an empty C string and the structure has the size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            std::mem::size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}
