//! Leaves the starter behind: another session, another parent, and where possible another cgroup,
//! so that stopping noded stops nothing else.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Given to the process that goes on, which can always open a session: a child never leads the
/// group of its parent.
pub const NEW_SESSION: &str = "--new-session";

/// Starts this program again with `arguments` and [`NEW_SESSION`] and returns; the caller then
/// ends, which gives the new process to init.
///
/// # Errors
/// Where the program cannot be started again.
pub fn start_detached(arguments: &[OsString]) -> io::Result<()> {
    Command::new("/proc/self/exe")
        .arg0("noded-keeper")
        .args(arguments)
        .arg(NEW_SESSION)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map(drop)
}

/// Opens a session of its own.
///
/// # Errors
/// Where this process leads a process group.
pub fn open_session() -> io::Result<()> {
    rustix::process::setsid().map(drop).map_err(io::Error::from)
}

/// Moves this process to a cgroup, which is made when missing.
///
/// # Errors
/// Where the directory cannot be made or does not take the process.
pub fn move_to_cgroup(cgroup: &Path) -> io::Result<()> {
    match fs::create_dir(cgroup) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::OpenOptions::new()
        .write(true)
        .open(cgroup.join("cgroup.procs"))
        .and_then(|mut procs| io::Write::write_all(&mut procs, b"0"))
}
