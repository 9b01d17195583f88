//! unshare(2) for networks, the question which kind a namespace is, and the state of a link.

mod link_state;

pub(crate) use link_state::settle_link;

use std::os::fd::BorrowedFd;

use rustix::io::{self, Errno};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread to a new, empty network namespace.
pub(crate) fn unshare_network() -> Result<(), Errno> {
    // SAFETY: the unsafe case of unshare is CLONE_FILES, where a thread may lose sight of
    // descriptors; a network namespace shares no memory and no descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}

/// Whether a descriptor on nsfs is a network namespace. Elsewhere the same number may be another
/// request, so the caller looks at the file system first.
pub(crate) fn is_network_namespace(namespace: BorrowedFd<'_>) -> bool {
    // SAFETY: NS_GET_NSTYPE (ioctl_ns(2)) takes no argument and changes nothing.
    unsafe { ioctl(namespace, NamespaceType) }
        .is_ok_and(|kind| kind.cast_unsigned() == UnshareFlags::NEWNET.bits())
}

/// `NS_GET_NSTYPE` (linux/nsfs.h): answers with the CLONE_NEW* flag of a namespace.
struct NamespaceType;

// SAFETY: the opcode carries no data in either direction, so no pointer is ever read or written by
// the kernel or here; the answer is the return value of the call.
unsafe impl Ioctl for NamespaceType {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        opcode::none(0xb7, 3)
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        answer: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> io::Result<IoctlOutput> {
        Ok(answer)
    }
}
