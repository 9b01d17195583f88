//! mount_setattr(2), which rustix lacks.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::check;

/// Adds attributes to the mount that `mount` is the root of and to all below it.
pub(crate) fn mount_setattr(mount: BorrowedFd<'_>, set: MountAttrFlags) -> Result<(), Errno> {
    change(mount, u64::from(set.bits()), 0)
}

/// The mount and all below it still receive mount events, and send none.
pub(crate) fn receive_only(mount: BorrowedFd<'_>) -> Result<(), Errno> {
    change(mount, 0, libc::MS_SLAVE)
}

fn change(mount: BorrowedFd<'_>, attr_set: u64, propagation: u64) -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set,
        attr_clr: 0,
        propagation,
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
