//! The parts of the suite, which can be measured one by one.

use clap::ValueEnum;

/// The parts, in the order in which they are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Signatures in this process.
    Tokens,
    /// Entries that seal variables anew, in this process.
    Entries,
    /// Writes, reads, and all sealed anew, at one server.
    Variables,
    /// The same at three.
    Three,
    /// Requests through tasks' sockets.
    Api,
    /// Starts of tasks with an identity file, and without.
    Starts,
    /// Memory of sockets that nobody uses.
    Memory,
}
