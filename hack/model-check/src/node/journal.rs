//! The journal's file: appended at once, so that no death of the daemon loses a record; on the disk
//! after a sync, so that no death of the host does.

use std::rc::Rc;

use noded_core::Watermark;
use noded_core::journal::{self, JournalRecord, RestoredNode};

/// A journal and its file.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    records: Vec<Rc<JournalRecord>>,
    /// How many of them are on the disk.
    on_disk: usize,
    /// What a sync that was begun will bring there.
    syncing: Option<usize>,
    /// Whether somebody asked for another one meanwhile.
    wanted: bool,
}

impl Journal {
    pub(super) fn append(&mut self, record: JournalRecord) {
        self.records.push(Rc::new(record));
    }

    pub(super) fn written(&self) -> usize {
        self.records.len()
    }

    pub(super) fn on_disk(&self) -> usize {
        self.on_disk
    }

    /// Whether a sync is under way.
    pub fn syncs(&self) -> bool {
        self.syncing.is_some()
    }

    pub(super) fn request_sync(&mut self) {
        if self.syncing.is_some() {
            self.wanted = true;
        } else if self.on_disk < self.records.len() {
            self.syncing = Some(self.records.len());
        }
    }

    pub(super) fn on_synced(&mut self) {
        if let Some(upto) = self.syncing.take() {
            self.on_disk = self.on_disk.max(upto);
        }
        if std::mem::take(&mut self.wanted) {
            self.request_sync();
        }
    }

    /// The newest watermark, on the disk or in the file.
    pub(super) fn watermark(&self, trusts_the_file: bool) -> Option<Watermark> {
        let count = if trusts_the_file {
            self.records.len()
        } else {
            self.on_disk
        };
        let records = self.records.iter().take(count).rev();
        records.into_iter().find_map(|record| match &**record {
            JournalRecord::Watermark { at } => Some(*at),
            _ => None,
        })
    }

    /// The daemon died: a sync that nobody waits for says nothing to its successor.
    pub(super) fn daemon_died(&mut self) {
        self.syncing = None;
        self.wanted = false;
    }

    /// The host went down: what was not on the disk is gone.
    pub(super) fn host_died(&mut self) {
        self.records.truncate(self.on_disk);
    }

    /// What a new daemon makes of the file, which it begins anew.
    pub(super) fn replay(&mut self) -> RestoredNode {
        let read = self
            .records
            .iter()
            .map(|record| JournalRecord::clone(record));
        let restored = journal::replay(read);
        self.records = journal::compact(&restored)
            .into_iter()
            .map(Rc::new)
            .collect();
        self.on_disk = self.records.len();
        restored
    }
}
