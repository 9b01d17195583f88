//! What the log is applied to. The only contract between this crate and the control plane's state.

use std::io::{self, Read, Write};

/// Where an entry stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The term of the leader that wrote the entry.
    pub term: u64,
    /// The entry's place in the log. A machine sees every index from 1 on, in order; index 0 is
    /// the membership that the log was born with.
    pub index: u64,
}

/// Why a machine could not apply an entry at all. Fatal: the server stops, and its log and its
/// state stay as they were before the entry.
pub type ApplyError = Box<dyn std::error::Error + Send + Sync>;

/// Why a machine could not take over a checkpoint. Fatal: the server stops.
pub type RestoreError = Box<dyn std::error::Error + Send + Sync>;

/// A deterministic state machine: the same commands at the same positions give the same state and
/// the same responses on every server.
pub trait Machine: Send + 'static {
    /// Applies a committed command and returns the response for its proposer.
    ///
    /// Runs on the thread that drives the log, so it must not block. A refusal is a response; a
    /// panic stops the server, because the state may be half-changed.
    ///
    /// # Errors
    /// When the command is not understood. Nothing was changed then: other servers may understand
    /// it, so leaving it out would make this one's state another than theirs. The server stops,
    /// and the entry is applied again when it is started the next time.
    fn apply(&mut self, position: Position, command: &[u8]) -> Result<Vec<u8>, ApplyError>;

    /// Notes an entry that carries no command: a leader's first entry, or a change of membership.
    fn advance(&mut self, position: Position);

    /// Captures the state as it is now, in O(1); the capture is written out on another thread
    /// while commands go on being applied.
    fn checkpoint(&self) -> Box<dyn CheckpointSource>;

    /// Replaces the whole state by a checkpoint that was taken at `position`.
    ///
    /// The reader ends where the checkpoint ends, and its bytes were verified (length, CRC-32).
    ///
    /// # Errors
    /// When the checkpoint is of an unknown version or contradicts itself.
    fn restore(
        &mut self,
        checkpoint: &mut dyn Read,
        position: Position,
    ) -> Result<(), RestoreError>;
}

/// A captured state.
pub trait CheckpointSource: Send + Sync {
    /// Writes the checkpoint, anew where the disk was full; compression and versions are the
    /// machine's business.
    ///
    /// # Errors
    /// When `sink` fails.
    fn write_to(&self, sink: &mut dyn Write) -> io::Result<()>;
}
