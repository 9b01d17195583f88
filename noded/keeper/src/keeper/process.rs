//! What /proc and a pidfd tell of one process.

use super::custody::Delivery;
use crate::protocol::{ExitStatus, OsSignal};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Signals whose default action does not end a process (signal(7)): discarding them changes nothing
/// worth killing for.
const HARMLESS_BY_DEFAULT: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// `/proc/<pid>/stat` (proc_pid_stat(5)).
struct Stat(String);

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .map(Self)
    }

    /// A field by its number in the manual, from 3 on. The command's name may hold anything,
    /// parentheses and blanks included; what follows its last parenthesis is field 3.
    fn field(&self, number: usize) -> Option<&str> {
        let (_, fields) = self.0.rsplit_once(')')?;
        fields.split_ascii_whitespace().nth(number.checked_sub(3)?)
    }

    fn start_time_ticks(&self) -> Option<u64> {
        self.field(22)?.parse().ok()
    }
}

/// When a process began: with the pid it names one process for as long as the host is up.
pub(crate) fn start_time_ticks(pid: u32) -> Option<u64> {
    Stat::read(pid)?.start_time_ticks()
}

/// The wait(2) status of a process that has ended and that nobody has reaped yet: field 52, on
/// every kernel. Whoever may not trace the process reads 0 there, which must not pass for success.
pub(crate) fn unreaped_status(pid: u32, ticks: u64) -> Option<i32> {
    let stat = Stat::read(pid)?;
    let is_it = stat.start_time_ticks() == Some(ticks) && stat.field(3) == Some("Z");
    // The same permission is asked for; a process that has ended has no program to show.
    let may_trace = fs::read_link(format!("/proc/{pid}/exe"))
        .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    let status = stat.field(52)?.parse().ok()?;
    (is_it && may_trace).then_some(status)
}

/// A pidfd of the process that had this start time, if it is still there.
pub(crate) fn open_same(pid: u32, ticks: u64) -> Option<OwnedFd> {
    let pid_number = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let pidfd = pidfd_open(pid_number, PidfdFlags::empty()).ok()?;
    // Read after the open: if the time matches now, the pidfd cannot be a later process.
    (start_time_ticks(pid) == Some(ticks)).then_some(pidfd)
}

/// Whether this process would be told of its end; leaves its status where it is.
pub(crate) fn is_own_child(pidfd: BorrowedFd<'_>) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // ECHILD where it is somebody else's.
    waitid(WaitId::PidFd(pidfd), options).is_ok()
}

/// Whether the kernel would deliver `signal`, or discard it because the process is PID 1 of its
/// namespace and has no handler. Where /proc does not tell, the signal is sent and the deadline
/// decides.
pub(crate) fn delivery(pid: u32, signal: OsSignal) -> Delivery {
    let OsSignal(number) = signal;
    let Ok(narrow) = u8::try_from(number) else {
        return Delivery::Delivered;
    };
    if HARMLESS_BY_DEFAULT.contains(&number) {
        return Delivery::Delivered;
    }
    match isolation::signals::pid1_ignores(pid, narrow) {
        Ok(true) => Delivery::Discarded,
        Ok(false) | Err(_) => Delivery::Delivered,
    }
}

pub(crate) fn send_signal(pidfd: BorrowedFd<'_>, signal: OsSignal) -> Result<(), Errno> {
    let OsSignal(number) = signal;
    let named = Signal::from_named_raw(number);
    match named {
        Some(signal) => pidfd_send_signal(pidfd, signal),
        None => crate::sys::pidfd::send_realtime_signal(pidfd, number),
    }
}

/// From the 16 bits of wait(2).
pub(crate) fn exit_status(raw: i32) -> ExitStatus {
    let signal = raw & 0x7f;
    if signal == 0 {
        ExitStatus::Code((raw >> 8) & 0xff)
    } else {
        ExitStatus::Signal {
            signal: OsSignal(signal),
            core_dumped: raw & 0x80 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_another_time_is_another_process() {
        let pid = std::process::id();
        let ticks = start_time_ticks(pid).unwrap();
        assert!(open_same(pid, ticks).is_some());
        assert!(open_same(pid, ticks + 1).is_none());
    }

    #[test]
    fn the_status_of_a_process_that_ended_is_there_until_it_is_reaped() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "read line; exit 7"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let ticks = start_time_ticks(pid).unwrap();
        assert_eq!(unreaped_status(pid, ticks), None, "it runs");
        drop(child.stdin.take());
        let own = Pid::from_child(&child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(own), options).unwrap();
        let told = unreaped_status(pid, ticks).map(exit_status);
        assert_eq!(told, Some(ExitStatus::Code(7)));
        assert_eq!(unreaped_status(pid, ticks + 1), None, "another process");
        child.wait().unwrap();
        assert_eq!(unreaped_status(pid, ticks), None, "it is gone");
    }

    #[test]
    fn wait_statuses_are_told_apart() {
        assert_eq!(exit_status(0), ExitStatus::Code(0));
        assert_eq!(exit_status(7 << 8), ExitStatus::Code(7));
        let killed = ExitStatus::Signal {
            signal: OsSignal(9),
            core_dumped: false,
        };
        assert_eq!(exit_status(9), killed);
        let dumped = ExitStatus::Signal {
            signal: OsSignal(11),
            core_dumped: true,
        };
        assert_eq!(exit_status(11 | 0x80), dumped);
        let realtime = ExitStatus::Signal {
            signal: OsSignal(40),
            core_dumped: false,
        };
        assert_eq!(exit_status(40), realtime);
    }
}
