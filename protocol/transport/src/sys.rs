//! The calls that change how the kernel schedules the calling thread: they have no safe interface.

use rustix::io::Errno;

/// How the kernel schedules the calling thread (sched_setattr(2)).
pub(crate) fn attributes() -> Result<libc::sched_attr, Errno> {
    // SAFETY: all of it are numbers, of which zero is one.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most `size` bytes, which the structure has; 0 is the caller.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    check(result)?;
    Ok(attributes)
}

/// Has it schedule the calling thread so.
pub(crate) fn set_attributes(attributes: &libc::sched_attr) -> Result<(), Errno> {
    let attributes = libc::sched_attr {
        size: attributes.size.min(SIZE),
        ..*attributes
    };
    // SAFETY: the kernel reads as many bytes as the structure says and has; 0 is the caller.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })
}

/// A structure of 48 bytes fits into any number.
#[expect(clippy::cast_possible_truncation, reason = "it is 48")]
const SIZE: u32 = size_of::<libc::sched_attr>() as u32;

fn check(result: libc::c_long) -> Result<(), Errno> {
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}
