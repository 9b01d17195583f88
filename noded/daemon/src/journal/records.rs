//! What the loop needs of a journal: the file here, memory where one process simulates many nodes.

use noded_core::journal::JournalRecord;

use super::{JournalError, Progress};

/// A journal, as its one user sees it. Whoever keeps it says when [`Self::progress`] or
/// [`Self::wants_compaction`] have something new that was waited for.
pub trait Records: std::fmt::Debug + Send {
    /// Appends a record to the group that [`Self::hand_over`] hands over next; returns its number,
    /// from 1. Whether it is in the file yet is said by [`Self::progress`].
    ///
    /// # Errors
    /// Where it cannot be encoded, or too much waits for the disk.
    fn append(&mut self, record: &JournalRecord) -> Result<u64, JournalError>;

    /// Gives what was appended to the writer.
    ///
    /// # Errors
    /// Where too much waits for the disk.
    fn hand_over(&mut self) -> Result<(), JournalError>;

    /// Waits for what was handed over: a moment, and not at all while the disk is known to take
    /// longer. Where it did not get there, that is told when it does.
    fn wait_written(&self);

    /// Asks for everything appended so far to be synced. When it is, that is told.
    fn request_sync(&self);

    /// The number of the newest record.
    fn issued(&self) -> u64;

    /// How far it is.
    fn progress(&self) -> Progress;

    /// Whether the file should be replaced by a compacted one: it has grown, or cannot be trusted.
    fn wants_compaction(&self) -> bool;

    /// Has the file replaced by `records`, which say the same as everything appended so far. All of
    /// that is on the disk afterwards; what is appended meanwhile waits for it.
    fn compact(&mut self, records: Vec<JournalRecord>);
}
