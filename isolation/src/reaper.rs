//! The program that is PID 1 of a task with a reaper: `sys/reaper/program.rs`, carried as bytes.
//!
//! It is executed from a sealed memory file: nothing of it has to be in the task's root, and no
//! task can write to it through `/proc/1/exe`.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use crate::sys::{self, Forked};

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/reaper"));

/// As `ps` shows it.
const NAME: &CStr = c"init";

/// The first process that is born after PID 1 in a new namespace (pid_namespaces(7)); the reaper
/// knows it by this number.
const FIRST_CHILD: libc::c_long = 2;

/// The program, ready to be executed by a child of the caller.
pub(crate) fn open() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels since 6.3 want to be told, older ones refuse to be.
    let memfd = match memfd_create("init", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create("init", flags)?,
        outcome => outcome?,
    };
    let mut rest = PROGRAM;
    while !rest.is_empty() {
        let count = rustix::io::write(&memfd, rest)?;
        rest = rest.get(count..).unwrap_or_default();
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&memfd, seals)?;
    Ok(memfd)
}

/// Forks. The caller becomes the reaper; this returns in its child only, or with an error in the
/// caller.
pub(crate) fn become_reaper(program: Option<&OwnedFd>) -> Result<(), Errno> {
    let program = program.ok_or(Errno::BADF)?;
    match sys::fork()? {
        Forked::Child => rustix::process::setsid().map(drop),
        Forked::Parent(FIRST_CHILD) => Err(sys::execve_descriptor(program.as_fd(), NAME)),
        // Not alone in a new namespace: signals would go to somebody else.
        Forked::Parent(_) => Err(Errno::CHILD),
    }
}
