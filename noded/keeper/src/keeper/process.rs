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

/// Field 22 of `/proc/<pid>/stat`: with the pid it names one process for as long as the host is up.
pub(crate) fn start_time_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold anything, parentheses and blanks included; what follows its last
    // parenthesis is field 3.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
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
