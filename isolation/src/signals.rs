//! Whether a signal would reach a task that is PID 1 of its namespace.

use std::fs;
use std::io;

/// Why the signal state of a process is not known.
#[derive(Debug, thiserror::Error)]
pub enum SignalStateError {
    /// /proc could not be read; the process may be gone.
    #[error("cannot read the signal state of process {pid}")]
    Read {
        /// The process, in the caller's namespace.
        pid: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// /proc said something unexpected.
    #[error("no field {field} in the status of process {pid}")]
    Field {
        /// The process.
        pid: u32,
        /// What is missing.
        field: &'static str,
    },
}

/// Signals that the kernel delivers from an ancestor namespace whatever a PID 1 does about them.
const ALWAYS_DELIVERED: [u8; 2] = [9, 19];

/// Whether the kernel would discard `signal` sent to `pid`, because `pid` is PID 1 of its own
/// namespace and leaves the signal to its default action (pid_namespaces(7)). Such a task can only
/// be killed.
///
/// One that has blocked the signal or waits for it gets it all the same (signalfd(2),
/// sigwaitinfo(2)); one that ignores it has chosen to, as any process may.
///
/// # Errors
/// The process is gone or /proc cannot be read.
pub fn pid1_ignores(pid: u32, signal: u8) -> Result<bool, SignalStateError> {
    if !state_of(pid)?.discards(signal) {
        return Ok(false);
    }
    // Signals that are waited for do not show as blocked for as long. Twice: between a wait and
    // the next they do.
    Ok(!waits_for_signals(pid)? && state_of(pid)?.discards(signal))
}

fn state_of(pid: u32) -> Result<SignalState, SignalStateError> {
    let status = read(pid, "status")?;
    SignalState::parse(&status).map_err(|field| SignalStateError::Field { pid, field })
}

/// Whether its main thread is in sigwaitinfo(2) or one of its relatives, as small inits are.
fn waits_for_signals(pid: u32) -> Result<bool, SignalStateError> {
    let call = match read(pid, "syscall") {
        // A kernel without it.
        Err(SignalStateError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(false);
        }
        call => call?,
    };
    let number = call.split_whitespace().next().and_then(|n| n.parse().ok());
    Ok(number == Some(libc::SYS_rt_sigtimedwait))
}

fn read(pid: u32, name: &str) -> Result<String, SignalStateError> {
    fs::read_to_string(format!("/proc/{pid}/{name}"))
        .map_err(|source| SignalStateError::Read { pid, source })
}

/// The lines of /proc/PID/status that matter here.
#[derive(Debug, PartialEq, Eq)]
struct SignalState {
    /// Number in the innermost namespace, and how deep that is.
    innermost_pid: u32,
    depth: usize,
    caught: u64,
    ignored: u64,
    blocked: u64,
}

impl SignalState {
    fn parse(status: &str) -> Result<Self, &'static str> {
        let field = |name: &'static str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
                .ok_or(name)
        };
        let pids = field("NSpid")?;
        let innermost = pids
            .split_whitespace()
            .last()
            .and_then(|pid| pid.parse().ok())
            .ok_or("NSpid")?;
        let set = |name| u64::from_str_radix(field(name)?, 16).map_err(|_| name);
        Ok(Self {
            innermost_pid: innermost,
            depth: pids.split_whitespace().count(),
            caught: set("SigCgt")?,
            ignored: set("SigIgn")?,
            blocked: set("SigBlk")?,
        })
    }

    fn discards(&self, signal: u8) -> bool {
        let bit = u32::from(signal)
            .checked_sub(1)
            .and_then(|shift| 1_u64.checked_shl(shift));
        let not_default = self.caught | self.ignored | self.blocked;
        let handled = bit.is_some_and(|bit| not_default & bit != 0);
        let first = self.innermost_pid == 1 && self.depth > 1;
        first && !handled && !ALWAYS_DELIVERED.contains(&signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &str = "0000000000000000";
    /// Bit 14 is SIGTERM.
    const TERM: &str = "0000000000004000";

    fn status(pids: &str, caught: &str) -> String {
        with_sets(pids, NONE, NONE, caught)
    }

    fn with_sets(pids: &str, blocked: &str, ignored: &str, caught: &str) -> String {
        format!(
            "Name:\tsleep\nPid:\t77\nNSpid:\t{pids}\nSigBlk:\t{blocked}\nSigIgn:\t{ignored}\n\
             SigCgt:\t{caught}\nSeccomp:\t0\n"
        )
    }

    #[test]
    fn a_first_process_without_handler_never_hears_the_signal() {
        let state = SignalState::parse(&status("77\t1", "0000000000000000")).expect("parses");
        assert!(state.discards(15));
        assert!(!state.discards(9));
    }

    #[test]
    fn a_handler_or_another_number_lets_it_through() {
        let handles = SignalState::parse(&status("77\t1", TERM)).expect("parses");
        assert!(!handles.discards(15));
        assert!(handles.discards(2));
        let plain = SignalState::parse(&status("77", "0000000000000000")).expect("parses");
        assert!(!plain.discards(15));
        let second = SignalState::parse(&status("77\t2", "0000000000000000")).expect("parses");
        assert!(!second.discards(15));
    }

    #[test]
    fn a_blocked_signal_waits_and_an_ignored_one_was_meant_to_be() {
        for (blocked, ignored) in [(TERM, NONE), (NONE, TERM)] {
            let text = with_sets("77\t1", blocked, ignored, NONE);
            let state = SignalState::parse(&text).expect("parses");
            assert!(!state.discards(15));
            assert!(state.discards(2));
        }
    }

    #[test]
    fn a_missing_field_is_named() {
        assert_eq!(SignalState::parse("Pid:\t1\n"), Err("NSpid"));
        assert_eq!(SignalState::parse("NSpid:\t1\n"), Err("SigCgt"));
    }

    #[test]
    fn this_process_is_no_first_one_and_a_dead_one_is_an_error() {
        assert!(matches!(pid1_ignores(std::process::id(), 15), Ok(false)));
        assert!(matches!(
            pid1_ignores(u32::MAX, 15),
            Err(SignalStateError::Read { .. })
        ));
    }
}
