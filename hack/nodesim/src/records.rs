//! A journal in memory: what is appended is as safe at once as it will ever be, and outlives the
//! daemon that wrote it.

use std::sync::Arc;

use noded_core::journal::{self, JournalRecord, RestoredNode};
use noded_daemon::journal::{JournalError, Progress, Records};
use parking_lot::Mutex;

/// Records before they are replaced by the fewest that say the same: a node's memory is bounded by
/// what it runs.
const COMPACT_RECORDS: usize = 256;

/// What a file would hold. Clones are the same file.
#[derive(Debug, Clone, Default)]
pub struct MemoryFile {
    records: Arc<Mutex<Vec<JournalRecord>>>,
}

impl MemoryFile {
    /// What a new daemon makes of it, which begins it anew.
    pub fn replay(&self) -> RestoredNode {
        let mut records = self.records.lock();
        let restored = journal::replay(std::mem::take(&mut *records));
        *records = journal::compact(&restored);
        restored
    }
}

/// One daemon's journal.
#[derive(Debug)]
pub struct MemoryRecords {
    file: MemoryFile,
    issued: u64,
    /// How many there were after the last time.
    compacted: usize,
}

impl MemoryRecords {
    /// Goes on in `file`.
    pub fn new(file: MemoryFile) -> Self {
        let compacted = file.records.lock().len();
        Self {
            file,
            issued: 0,
            compacted,
        }
    }
}

impl Records for MemoryRecords {
    fn append(&mut self, record: &JournalRecord) -> Result<u64, JournalError> {
        self.file.records.lock().push(record.clone());
        self.issued += 1;
        Ok(self.issued)
    }

    fn hand_over(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn wait_written(&self) {}

    fn request_sync(&self) {}

    fn issued(&self) -> u64 {
        self.issued
    }

    fn progress(&self) -> Progress {
        Progress {
            written: self.issued,
            synced: self.issued,
        }
    }

    fn wants_compaction(&self) -> bool {
        self.file.records.lock().len() > COMPACT_RECORDS.max(2 * self.compacted)
    }

    fn compact(&mut self, records: Vec<JournalRecord>) {
        self.compacted = records.len();
        *self.file.records.lock() = records;
    }
}

#[cfg(test)]
mod tests {
    use protocol_model::UnixNanos;

    use super::*;

    #[test]
    fn what_is_appended_is_safe_at_once_and_replaced_when_it_is_much() {
        let file = MemoryFile::default();
        let mut records = MemoryRecords::new(file.clone());
        let record = JournalRecord::Heard { at: UnixNanos(1) };
        for number in 1..=COMPACT_RECORDS as u64 {
            assert_eq!(records.append(&record).unwrap(), number);
        }
        assert!(!records.wants_compaction());
        records.append(&record).unwrap();
        assert!(records.wants_compaction());
        records.compact(vec![record]);
        assert_eq!(file.replay().heard, Some(UnixNanos(1)));
        assert!(!records.wants_compaction());
        assert_eq!(records.progress().synced, COMPACT_RECORDS as u64 + 1);
    }
}
