//! execve(2) with vectors that were made before the clone.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::check;

/// Argument and environment vectors as the kernel reads them.
pub(crate) struct ExecVectors<'a> {
    argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    strings: PhantomData<&'a CString>,
}

impl<'a> ExecVectors<'a> {
    pub(crate) fn new(argv: &'a [CString], env: &'a [CString]) -> Self {
        let vector = |strings: &'a [CString]| {
            strings
                .iter()
                .map(|string| string.as_ptr())
                .chain(std::iter::once(std::ptr::null()))
                .collect()
        };
        Self {
            argv: vector(argv),
            env: vector(env),
            strings: PhantomData,
        }
    }
}

/// Becomes another program; returns only when it could not.
pub(crate) fn execve(path: &CStr, vectors: &ExecVectors<'_>) -> Errno {
    // SAFETY: path is NUL-terminated; both vectors end with a null pointer and their strings
    // live as long as `vectors`. A raw call because rustix hides execve and nix builds the
    // vectors itself, on the heap, after the clone.
    let result = unsafe {
        libc::syscall(
            libc::SYS_execve,
            path.as_ptr(),
            vectors.argv.as_ptr(),
            vectors.env.as_ptr(),
        )
    };
    check(result).err().unwrap_or(Errno::IO)
}

/// Becomes the program that a descriptor is open on, without an environment; returns only when it
/// could not.
pub(crate) fn execve_descriptor(program: BorrowedFd<'_>, name: &'static CStr) -> Errno {
    let argv = [name.as_ptr(), std::ptr::null()];
    let env = [std::ptr::null::<libc::c_char>()];
    // SAFETY: the path is empty and both vectors end with a null pointer; they and the name live
    // through the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    check(result).err().unwrap_or(Errno::IO)
}
