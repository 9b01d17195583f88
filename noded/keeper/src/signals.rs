//! Signals as readable descriptors, so that one poll waits for everything.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Why signals cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SignalsError {
    #[error("signals cannot be blocked")]
    Block(#[source] Errno),
    #[error("signalfd cannot be made")]
    Make(#[source] Errno),
    #[error("signalfd cannot be read")]
    Read(#[source] Errno),
}

/// SIGTERM and SIGINT.
pub(crate) fn termination() -> Result<SignalFd, SignalsError> {
    descriptor(&[Signal::SIGTERM, Signal::SIGINT])
}

/// SIGTERM, SIGINT and SIGCHLD.
pub(crate) fn termination_and_children() -> Result<SignalFd, SignalsError> {
    descriptor(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD])
}

/// The next signal that arrived, if any.
pub(crate) fn take(descriptor: &SignalFd) -> Result<Option<Signal>, SignalsError> {
    let found = descriptor.read_signal().map_err(SignalsError::Read)?;
    Ok(found
        .and_then(|info| i32::try_from(info.ssi_signo).ok())
        .and_then(|n| Signal::try_from(n).ok()))
}

fn descriptor(signals: &[Signal]) -> Result<SignalFd, SignalsError> {
    let mut set = SigSet::empty();
    for signal in signals {
        set.add(*signal);
    }
    set.thread_block().map_err(SignalsError::Block)?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(SignalsError::Make)
}
