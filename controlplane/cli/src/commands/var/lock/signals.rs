//! Signals that `var lock` hands to its command.
//!
//! The command is in a process group of its own: a terminal that is closed, or Ctrl-C, reaches
//! `drover` alone. Without a handler `drover` would end, and its command would run on without the
//! lock.

use std::future::pending;

use rustix::process::Signal as OsSignal;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that arrive from now on.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` below `nohup`.
    hangup: Option<Signal>,
    quit: Signal,
}

impl Signals {
    /// Receives them instead of ending by them.
    ///
    /// # Errors
    /// Where the host refuses a handler.
    pub(super) fn receive() -> Result<Self, Failure> {
        let receive = |kind| {
            signal(kind).map_err(|source| Failure::Host {
                what: "watching for signals",
                source,
            })
        };
        Ok(Self {
            terminate: receive(SignalKind::terminate())?,
            interrupt: receive(SignalKind::interrupt())?,
            hangup: match ignores_hangup() {
                true => None,
                false => Some(receive(SignalKind::hangup())?),
            },
            quit: receive(SignalKind::quit())?,
        })
    }

    /// The next one. Nothing is lost where this is dropped.
    pub(super) async fn next(&mut self) -> OsSignal {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => OsSignal::TERM,
            _ = self.interrupt.recv() => OsSignal::INT,
            _ = hangup => OsSignal::HUP,
            _ = self.quit.recv() => OsSignal::QUIT,
        }
    }
}

/// Whether this process was started to outlive its terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    has_hangup(&status)
}

/// Whether SIGHUP, the lowest bit, is in the mask of ignored signals (`proc_pid_status(5)`).
fn has_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hangup_is_ignored_where_the_mask_of_the_process_has_it() {
        assert!(has_hangup("Name:\tdrover\nSigIgn:\t0000000000001001\n"));
        assert!(!has_hangup("Name:\tdrover\nSigIgn:\t0000000000001000\n"));
        assert!(!has_hangup(""));
    }
}
