//! The journal's file, as the daemon's `journal.rs` keeps it: appended at once, synced in groups,
//! replaced when it grows.

use noded_core::journal::{self, JournalRecord, RestoredNode};
use protocol_model::UnixNanos;

/// Records before the file is replaced by the fewest that say the same.
const COMPACT_RECORDS: usize = 600;

/// One file in so many, as the number of its records has it, is read through its bytes: that they
/// say what was written is tested where they are made, and reading each was a tenth of a run.
const THROUGH_BYTES: usize = 4;

/// A journal and its file.
#[derive(Debug, Default)]
pub struct Journal {
    /// The file, whole records only.
    records: Vec<JournalRecord>,
    /// How many of them are on the disk.
    on_disk: usize,
    /// Waits for room on the disk.
    backlog: Vec<JournalRecord>,
    /// Records that the daemon issued, those in the file, those on the disk: from its start on.
    issued: u64,
    written: u64,
    synced: u64,
    /// How many records the file had when the daemon began to count.
    before: usize,
    /// Which file it is: syncs of a replaced one say nothing.
    file: u32,
    syncing: bool,
    sync_wanted: bool,
    /// The disk refuses writes.
    pub full: bool,
    /// A sync takes this much longer.
    pub slow: u64,
    retry_armed: bool,
    /// A record was damaged once: runs that it does not know are not trusted.
    pub damaged: bool,
}

impl Journal {
    /// Answers whether the record is in the file, where no death of the daemon loses it.
    pub(super) fn append(&mut self, record: JournalRecord) -> bool {
        self.issued += 1;
        if self.full || !self.backlog.is_empty() {
            self.backlog.push(record);
            return false;
        }
        self.records.push(record);
        self.written += 1;
        true
    }

    /// When the control plane last heard the host, as far as the file says.
    pub fn heard(&self) -> Option<UnixNanos> {
        self.records.iter().rev().find_map(|record| match record {
            JournalRecord::Heard { at } => Some(*at),
            _ => None,
        })
    }

    pub(super) fn issued(&self) -> u64 {
        self.issued
    }

    /// Records in the file, records on the disk.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.written, self.synced)
    }

    /// The records on the disk, or in the file, the newest first.
    pub(super) fn durable(&self, trusts_the_file: bool) -> impl Iterator<Item = &JournalRecord> {
        let count = if trusts_the_file {
            self.records.len()
        } else {
            self.on_disk
        };
        self.records.iter().take(count).rev()
    }

    /// Whether a sync has to be started now; it will have brought this many records to the disk.
    /// Where everything in the file is there already it would bring nothing.
    pub(super) fn request_sync(&mut self) -> Option<(u64, u32)> {
        if self.written == self.synced {
            return None;
        }
        if self.syncing {
            self.sync_wanted = true;
            return None;
        }
        self.syncing = true;
        Some((self.written, self.file))
    }

    pub(super) fn on_synced(&mut self, count: u64, file: u32) {
        if file != self.file {
            return;
        }
        self.syncing = false;
        self.synced = self.synced.max(count);
        let position = self.before + usize::try_from(self.synced).unwrap_or(0);
        self.on_disk = position.min(self.records.len());
    }

    /// Whether somebody asked for another sync meanwhile.
    pub(super) fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.sync_wanted)
    }

    /// Whether records wait for room and nobody has been asked to try again.
    pub(super) fn arm_retry(&mut self) -> bool {
        let arm = !self.backlog.is_empty() && !self.retry_armed;
        self.retry_armed |= arm;
        arm
    }

    /// Tries to write what waits; answers what is in the file now.
    pub(super) fn retry(&mut self) -> &[JournalRecord] {
        self.retry_armed = false;
        let before = self.records.len();
        if !self.full {
            self.written += self.backlog.len() as u64;
            self.records.append(&mut self.backlog);
        }
        &self.records[before..]
    }

    pub(super) fn wants_compaction(&self) -> bool {
        self.records.len() > COMPACT_RECORDS && !self.full
    }

    /// A new file in the old one's place, synced before it is.
    pub(super) fn replace(&mut self, records: Vec<JournalRecord>) {
        self.records = records;
        self.backlog.clear();
        // Positions of records issued from now on are counted from here.
        self.issued = 0;
        self.written = 0;
        self.synced = 0;
        self.before = self.records.len();
        self.on_disk = self.records.len();
        self.file += 1;
        self.syncing = false;
    }

    /// What waits for room is gone with the daemon.
    pub(super) fn daemon_died(&mut self) {
        self.backlog.clear();
        self.file += 1;
        self.syncing = false;
        self.sync_wanted = false;
        self.retry_armed = false;
    }

    /// The host went down: of what was not on the disk, some of the beginning may be there.
    pub(super) fn crash(&mut self, chance: u64) {
        let loose = self.records.len().saturating_sub(self.on_disk);
        let kept = usize::try_from(chance % (loose as u64 + 1)).unwrap_or(0);
        self.records.truncate(self.on_disk + kept);
    }

    /// A record about a run is damaged: whoever reads the file does without it.
    pub(crate) fn damage(&mut self, chance: u64) {
        let about_runs: Vec<usize> = (0..self.records.len())
            .filter(|at| {
                matches!(
                    self.records[*at],
                    JournalRecord::Intent { .. } | JournalRecord::Task { .. }
                )
            })
            .collect();
        let hit = usize::try_from(chance % (about_runs.len() as u64).max(1)).unwrap_or(0);
        if let Some(at) = about_runs.get(hit) {
            self.damaged = true;
            self.records.remove(*at);
            self.on_disk = self.on_disk.min(self.records.len());
        }
    }

    /// What a new daemon makes of the file, which it begins anew.
    pub(super) fn replay(&mut self) -> RestoredNode {
        let records = std::mem::take(&mut self.records);
        let through_bytes = records.len().is_multiple_of(THROUGH_BYTES);
        let read = records.into_iter().filter_map(|record| {
            if !through_bytes {
                return Some(record);
            }
            let bytes = journal::encode(&record).ok()?;
            journal::decode(&bytes).ok()
        });
        let restored = journal::replay(read);
        self.replace(journal::compact(&restored));
        restored
    }
}
