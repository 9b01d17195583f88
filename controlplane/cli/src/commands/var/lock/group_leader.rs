//! The leader of the process group of `var lock`'s command: a second `drover`.
//!
//! ```text
//!  drover var lock ─► group leader (this) ─► command ─► its children
//!     │ killed            └─ SIGTERM from the kernel, another parent: SIGKILL to its whole group
//! ```
//!
//! A `drover` that is killed (SIGKILL, out of memory) ends nothing itself. The kernel tells this
//! process of it (`PR_SET_PDEATHSIG`). The command could be told too, but its children could not.
//! The signal also comes when the thread ends that started this process, so the parent is compared.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::{
    Pid, Signal, getppid, kill_current_process_group, set_parent_process_death_signal,
};
use rustix::thread::set_name;
use tokio::process::Command;

use super::signals::Signals;
use crate::failure::{Exit, Failure};

/// The first argument of such a process. Its parent and the command follow.
pub(crate) const WORD: &str = "__var-lock-group";

/// Runs the command, and kills its group with itself once its parent is gone.
///
/// # Errors
/// Where there is no such command.
pub(crate) async fn run(words: &[String]) -> Result<Exit, Failure> {
    let [parent, program, arguments @ ..] = words else {
        return Err(Failure::usage("`drover var lock` alone starts this"));
    };
    let parent = parent.parse().ok().and_then(Pid::from_raw);
    let host = |what| move |source: std::io::Error| Failure::Host { what, source };
    // `killall -9 drover` leaves this process to kill the group.
    let _ = set_name(c"var-lock-group");
    // Its own handlers: the group's signals are for the command, which starts without handlers.
    let mut signals = Signals::receive()?;
    let watched = set_parent_process_death_signal(Some(Signal::TERM));
    watched.map_err(|error| host("watching drover")(error.into()))?;
    if getppid() != parent {
        return Err(Failure::usage("drover was killed before its command began"));
    }
    let child = Command::new(program).args(arguments).spawn();
    let mut child = child.map_err(|source| {
        Failure::usage(format!("cannot start the command {program:?}: {source}"))
    })?;
    loop {
        tokio::select! {
            status = child.wait() => {
                return Ok(code(status.map_err(host("waiting for the command"))?));
            }
            _ = signals.next() => {
                if getppid() != parent {
                    let _ = kill_current_process_group(Signal::KILL);
                }
            }
        }
    }
}

/// The exit code of a command, 128 and the number of the signal that ended it.
pub(super) fn code(status: ExitStatus) -> Exit {
    let signalled = status.signal().map(|number| 128 + number);
    let code = status.code().or(signalled).unwrap_or(1);
    Exit(u8::try_from(code).unwrap_or(1))
}
