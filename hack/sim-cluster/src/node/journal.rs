//! A journal in memory: what was synced survives the host, what was written survives the daemon. It
//! may be slow, and refuse.

use std::sync::Arc;
use std::time::Duration;

use noded_core::Watermark;
use noded_core::journal::{self, JournalRecord, RestoredNode};
use noded_daemon::journal::{JournalError, Progress, Records};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::eyes::{Eyes, Observation};
use crate::net::Machine;

/// How long a sync takes on a disk that is well.
const SYNC: Duration = Duration::from_millis(1);
/// How often a daemon tries again to write where the disk refuses.
const AGAIN: Duration = Duration::from_millis(500);
/// Records before they are replaced by the fewest that say the same.
const COMPACT_RECORDS: usize = 128;

/// What a host keeps of its daemon's journal. Clones are the same file.
#[derive(Debug, Clone, Default)]
pub struct JournalFile {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    records: Vec<JournalRecord>,
    /// How many of them are on the disk.
    synced: usize,
    slow: Duration,
    refuses: bool,
    /// A planted bug: whatever is written is gone when the daemon ends.
    drops: bool,
    /// Which daemon has the file.
    life: u64,
}

impl JournalFile {
    /// Makes syncs take this much longer; zero = not longer.
    pub fn set_slow(&self, slow: Duration) {
        self.inner.lock().slow = slow;
    }

    /// Whether nothing is written any more.
    pub fn set_refuses(&self, refuses: bool) {
        self.inner.lock().refuses = refuses;
    }

    /// Plants the bug.
    pub fn set_drops(&self) {
        self.inner.lock().drops = true;
    }

    /// The host has no power: what was not synced is lost.
    pub fn cut_power(&self) {
        let mut inner = self.inner.lock();
        let synced = inner.synced;
        inner.records.truncate(synced);
    }

    /// What a new daemon finds, which begins the file anew.
    pub fn replay(&self) -> RestoredNode {
        let mut inner = self.inner.lock();
        inner.life += 1;
        if inner.drops {
            inner.records.clear();
        }
        let restored = journal::replay(std::mem::take(&mut inner.records));
        inner.records = journal::compact(&restored);
        inner.synced = inner.records.len();
        restored
    }
}

/// One daemon's journal. Clones are the same one.
#[derive(Debug, Clone)]
pub struct SimRecords {
    file: JournalFile,
    life: u64,
    machine: Machine,
    eyes: Arc<Eyes>,
    news: Arc<Notify>,
    shared: Arc<Mutex<Standing>>,
    compacted: usize,
}

/// How far one daemon's journal is.
#[derive(Debug, Default)]
struct Standing {
    issued: u64,
    progress: Progress,
    /// What the disk did not take yet.
    waiting: Vec<JournalRecord>,
    trying: bool,
    /// Up to where a sync is under way.
    syncing: u64,
}

impl SimRecords {
    /// Goes on in `file`, which was just replayed; `news` hears of progress.
    pub fn new(file: JournalFile, machine: Machine, eyes: Arc<Eyes>, news: Arc<Notify>) -> Self {
        let (life, compacted) = {
            let inner = file.inner.lock();
            (inner.life, inner.records.len())
        };
        Self {
            file,
            life,
            machine,
            eyes,
            news,
            shared: Arc::default(),
            compacted,
        }
    }

    /// Writes what waits, where the disk takes it.
    fn write(&self, standing: &mut Standing) -> bool {
        let mut inner = self.file.inner.lock();
        if inner.life != self.life || inner.refuses {
            return false;
        }
        let moved = watermark(&standing.waiting);
        inner.records.append(&mut standing.waiting);
        standing.progress.written = standing.issued;
        drop(inner);
        self.show(moved);
        true
    }

    /// What is in the file now is what a daemon that is started again has been told.
    fn show(&self, moved: Option<Watermark>) {
        if let Some(watermark) = moved {
            let node = self.machine;
            self.eyes
                .see(&Observation::WatermarkMoved { node, watermark });
        }
    }

    fn try_again(&self) {
        let records = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(AGAIN).await;
                if records.file.inner.lock().life != records.life {
                    return;
                }
                let mut standing = records.shared.lock();
                if records.write(&mut standing) {
                    standing.trying = false;
                    records.news.notify_one();
                    return;
                }
            }
        });
    }
}

/// The newest watermark of some records.
fn watermark(records: &[JournalRecord]) -> Option<Watermark> {
    records.iter().rev().find_map(|record| match record {
        JournalRecord::Watermark { at } => Some(*at),
        _ => None,
    })
}

impl Records for SimRecords {
    fn append(&mut self, record: &JournalRecord) -> Result<u64, JournalError> {
        let mut standing = self.shared.lock();
        standing.waiting.push(record.clone());
        standing.issued += 1;
        Ok(standing.issued)
    }

    fn hand_over(&mut self) -> Result<(), JournalError> {
        let mut standing = self.shared.lock();
        if standing.waiting.is_empty() || standing.trying {
            return Ok(());
        }
        if !self.write(&mut standing) {
            standing.trying = true;
            drop(standing);
            self.try_again();
        }
        Ok(())
    }

    fn wait_written(&self) {}

    fn request_sync(&self) {
        let (file, life) = (self.file.clone(), self.life);
        let (shared, news) = (Arc::clone(&self.shared), Arc::clone(&self.news));
        let (slow, records) = {
            let inner = file.inner.lock();
            (inner.slow, inner.records.len())
        };
        let upto = {
            let mut standing = shared.lock();
            let upto = standing.progress.written;
            if upto <= standing.progress.synced.max(standing.syncing) {
                return;
            }
            standing.syncing = upto;
            upto
        };
        tokio::spawn(async move {
            tokio::time::sleep(SYNC + slow).await;
            let mut inner = file.inner.lock();
            if inner.life != life || inner.refuses {
                drop(inner);
                // Whoever waits asks again.
                shared.lock().syncing = 0;
                return;
            }
            // It may have been compacted meanwhile, which syncs.
            inner.synced = inner.synced.max(records.min(inner.records.len()));
            drop(inner);
            let mut standing = shared.lock();
            standing.progress.synced = standing.progress.synced.max(upto);
            news.notify_one();
        });
    }

    fn issued(&self) -> u64 {
        self.shared.lock().issued
    }

    fn progress(&self) -> Progress {
        self.shared.lock().progress
    }

    fn wants_compaction(&self) -> bool {
        let standing = self.shared.lock();
        let all_written = standing.progress.written == standing.issued;
        all_written
            && self.file.inner.lock().records.len() > COMPACT_RECORDS.max(2 * self.compacted)
    }

    fn compact(&mut self, records: Vec<JournalRecord>) {
        let mut inner = self.file.inner.lock();
        if inner.life != self.life || inner.refuses {
            return;
        }
        self.compacted = records.len();
        inner.synced = records.len();
        let moved = watermark(&records);
        inner.records = records;
        drop(inner);
        self.show(moved);
        let mut standing = self.shared.lock();
        standing.progress.synced = standing.progress.written;
    }
}

#[cfg(test)]
mod tests {
    use noded_core::Watermark;

    use super::*;
    use crate::schedule::Scenario;

    fn told_up_to(index: u64) -> JournalRecord {
        let at = Watermark {
            incarnation: None,
            index,
        };
        JournalRecord::Watermark { at }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watermark_that_the_disk_refuses_has_not_moved_before_it_is_written() {
        let eyes = Arc::new(Eyes::new(Scenario::Calm, 1, 1, 1, true));
        let file = JournalFile::default();
        file.replay();
        let mut records = SimRecords::new(file.clone(), 1, Arc::clone(&eyes), Arc::default());
        let mut append = |index| {
            records.append(&told_up_to(index)).expect("in memory");
            records.hand_over().expect("in memory");
        };
        append(3);
        file.set_refuses(true);
        append(5);
        let moves = || eyes.trace(usize::MAX).len();
        assert_eq!(moves(), 1);
        file.set_refuses(false);
        tokio::time::sleep(2 * AGAIN).await;
        assert_eq!(moves(), 2);
        // A daemon that ends takes along what waits.
        file.set_refuses(true);
        append(7);
        assert_eq!(file.replay().watermark.index, 5);
        assert_eq!(moves(), 2);
    }
}
