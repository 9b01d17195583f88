//! The journal's file: framed records, appended at once, synced in groups.
//!
//! ```text
//!   append --> written --(syncer thread: one fdatasync for all that was written)--> synced
//! ```
//!
//! A record that cannot be written (a full disk) waits in memory, and with it everything that was
//! to happen after it; [`Journal::retry`] tries again. The file's layout, torn tail included, is in
//! [`frames`].

pub mod frames;

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use frames::{MAGIC, Split, frame};
use noded_core::journal::{self, JournalRecord, RestoredNode};

/// Records that wait for room on the disk; beyond, the daemon gives up rather than its memory.
const BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Beyond this size, and twice what was left the last time, the file is replaced by the fewest
/// records that say the same.
const COMPACT_BYTES: u64 = 32 * 1024 * 1024;

const FILE: &str = "journal";

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// An operation on a file failed.
    #[error("{operation} {}", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a journal", .path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// A whole record, with the right checksum, makes no sense to this release.
    #[error("record {number} of {} cannot be read", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Which record, from 0.
        number: usize,
        /// Why.
        #[source]
        source: journal::JournalError,
    },
    /// A record could not be put into bytes.
    #[error("a record cannot be encoded")]
    Encode(#[source] journal::JournalError),
    /// The disk has been full for too long.
    #[error("more than {BACKLOG_BYTES_MAX} bytes wait for the journal's disk")]
    BacklogFull,
    /// The thread that syncs could not be started.
    #[error("the journal's thread cannot be started")]
    Thread(#[source] io::Error),
}

/// How far the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Records in the file.
    pub written: u64,
    /// Records on the disk.
    pub synced: u64,
}

/// The open journal.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    file: Arc<File>,
    /// Where the last whole record ends.
    end: u64,
    /// Where it ended when the file was new.
    compacted: u64,
    issued: u64,
    written: Arc<AtomicU64>,
    synced: u64,
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    wake: SyncSender<Arc<File>>,
    sync_failed: Arc<AtomicBool>,
}

/// How a file gets to the disk; another one in tests.
type Sync = fn(&File) -> io::Result<()>;

impl Journal {
    /// Reads the journal in `directory`, cuts a torn tail, and begins a compacted file.
    /// `on_synced` is called on the journal's own thread whenever more records are on the disk.
    ///
    /// # Errors
    /// Where a file cannot be read or written, or a record is of another release.
    pub fn open(
        directory: &Path,
        on_synced: impl Fn(u64) + Send + 'static,
    ) -> Result<(Self, RestoredNode), JournalError> {
        Self::open_with(directory, File::sync_data, on_synced)
    }

    fn open_with(
        directory: &Path,
        sync: Sync,
        on_synced: impl Fn(u64) + Send + 'static,
    ) -> Result<(Self, RestoredNode), JournalError> {
        let path = directory.join(FILE);
        let records = read(&path)?;
        let restored = journal::replay(records);
        let compacted = journal::compact(&restored);
        let Replaced { file, end, durable } = replace(directory, &compacted)?;
        durable?;
        let written = Arc::new(AtomicU64::new(0));
        let sync_failed = Arc::new(AtomicBool::new(false));
        let wake = start_syncer(
            Arc::clone(&written),
            Arc::clone(&sync_failed),
            sync,
            on_synced,
        )?;
        let journal = Self {
            directory: directory.to_owned(),
            file: Arc::new(file),
            end,
            compacted: end,
            issued: 0,
            written,
            synced: 0,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            wake,
            sync_failed,
        };
        Ok((journal, restored))
    }

    /// Appends a record; returns its number, from 1. Whether it is in the file yet is said by
    /// [`Self::progress`].
    ///
    /// # Errors
    /// Where it cannot be encoded, or too much waits for the disk.
    pub fn append(&mut self, record: &JournalRecord) -> Result<u64, JournalError> {
        let bytes = journal::encode(record).map_err(JournalError::Encode)?;
        self.issued += 1;
        self.backlog_bytes += bytes.len();
        if self.backlog_bytes > BACKLOG_BYTES_MAX {
            return Err(JournalError::BacklogFull);
        }
        self.backlog.push_back(frame(&bytes));
        if self.backlog.len() == 1
            && let Err(error) = self.write_first()
        {
            tracing::error!(error = %error, "the journal cannot be written; waiting for room");
        }
        Ok(self.issued)
    }

    /// Tries again to write what waits.
    ///
    /// # Errors
    /// Where it still cannot be written.
    pub fn retry(&mut self) -> io::Result<()> {
        while !self.backlog.is_empty() {
            self.write_first()?;
        }
        Ok(())
    }

    /// Whether records wait for room on the disk.
    pub fn is_stuck(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Asks for everything written so far to be synced; `on_synced` tells when.
    pub fn request_sync(&self) {
        match self.wake.try_send(Arc::clone(&self.file)) {
            // A request that waits already covers this one: the count is read after it is taken.
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => {
                tracing::error!("the journal's thread is gone; nothing can be acknowledged");
            }
        }
    }

    /// Takes in what the syncer said.
    pub fn on_synced(&mut self, count: u64) {
        self.synced = self.synced.max(count);
    }

    /// The number of the newest record.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            written: self.written.load(Ordering::Acquire),
            synced: self.synced,
        }
    }

    /// Whether the file should be replaced by a compacted one.
    pub fn wants_compaction(&self) -> bool {
        let large = self.end > COMPACT_BYTES.max(2 * self.compacted);
        (large || self.is_untrusted()) && self.backlog.is_empty()
    }

    /// Whether a sync failed. The kernel may have dropped what it could not write and would call
    /// the next sync a success: only a new file can be trusted.
    pub fn is_untrusted(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }

    /// Replaces the file by `records`, which say the same as everything appended so far. Everything
    /// issued is on the disk afterwards.
    ///
    /// # Errors
    /// Where the new file cannot be written, and the old one stays in use; or where its name may
    /// not be on the disk yet: then the new one is in use, and not trusted before it is replaced
    /// again.
    pub fn compact(&mut self, records: &[JournalRecord]) -> Result<(), JournalError> {
        let Replaced { file, end, durable } = replace(&self.directory, records)?;
        self.file = Arc::new(file);
        self.end = end;
        self.compacted = end;
        self.written.store(self.issued, Ordering::Release);
        self.sync_failed.store(durable.is_err(), Ordering::Release);
        durable?;
        self.synced = self.issued;
        Ok(())
    }

    fn write_first(&mut self) -> io::Result<()> {
        let Some(bytes) = self.backlog.front() else {
            return Ok(());
        };
        // At a fixed place: what an earlier attempt left half-written is written over.
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.backlog_bytes = self
            .backlog_bytes
            .saturating_sub(bytes.len() - frames::HEADER_BYTES);
        self.backlog.pop_front();
        self.written.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

fn start_syncer(
    written: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    sync: Sync,
    on_synced: impl Fn(u64) + Send + 'static,
) -> Result<SyncSender<Arc<File>>, JournalError> {
    let (wake, requests) = sync_channel::<Arc<File>>(1);
    std::thread::Builder::new()
        .name("journal".to_owned())
        .spawn(move || {
            while let Ok(file) = requests.recv() {
                if failed.load(Ordering::Acquire) {
                    continue;
                }
                let count = written.load(Ordering::Acquire);
                match sync(&file) {
                    Ok(()) => on_synced(count),
                    Err(error) => {
                        tracing::error!(%error, "the journal cannot be synced; it begins anew");
                        failed.store(true, Ordering::Release);
                        // Nothing new is on the disk, but somebody has to look.
                        on_synced(0);
                    }
                }
            }
        })
        .map_err(JournalError::Thread)?;
    Ok(wake)
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::File {
        operation,
        path,
        source,
    }
}

/// Every whole record. What follows the last whole one was never acknowledged.
fn read(path: &Path) -> Result<Vec<JournalRecord>, JournalError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("reading", path)(error)),
    };
    let split = frames::split(&bytes).map_err(|_| JournalError::NotAJournal {
        path: path.to_owned(),
    })?;
    let Split {
        records: frames,
        torn,
        damaged,
    } = split;
    if damaged > 0 {
        let copy = path.with_extension("damaged");
        std::fs::write(&copy, &bytes).map_err(failed("writing", &copy))?;
        tracing::error!(
            bytes = damaged,
            copy = %copy.display(),
            "the journal is damaged; what is whole in it is used, and a copy is kept: look at the disk"
        );
    }
    let mut records = Vec::with_capacity(frames.len());
    for record in frames {
        let record = journal::decode(record).map_err(|source| JournalError::Record {
            path: path.to_owned(),
            number: records.len(),
            source,
        })?;
        records.push(record);
    }
    if torn > 0 {
        tracing::warn!(
            bytes = torn,
            "the journal ended in a torn record, which is cut off"
        );
    }
    Ok(records)
}

/// A new file in the old one's place.
struct Replaced {
    file: File,
    end: u64,
    /// Whether a crash of the host would find it there.
    durable: Result<(), JournalError>,
}

/// Writes a new file and puts it in the old one's place.
fn replace(directory: &Path, records: &[JournalRecord]) -> Result<Replaced, JournalError> {
    let mut bytes = MAGIC.to_vec();
    for record in records {
        bytes.extend(frame(
            &journal::encode(record).map_err(JournalError::Encode)?,
        ));
    }
    let (temporary, path) = (directory.join("journal.new"), directory.join(FILE));
    let write = || -> io::Result<File> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        Ok(file)
    };
    let file = write().map_err(failed("writing", &path))?;
    // From here on the old file has no name: whatever was appended to it would be lost.
    let durable = File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(failed("syncing", directory));
    Ok(Replaced {
        file,
        end: bytes.len() as u64,
        durable,
    })
}

#[cfg(test)]
mod tests {
    use noded_core::{RunEpoch, RunKey, SessionEpoch};
    use protocol_model::AllocId;

    use super::*;

    fn record(epoch: u64) -> JournalRecord {
        JournalRecord::SessionEpoch {
            epoch: SessionEpoch(epoch),
        }
    }

    fn reopen(directory: &Path) -> (Journal, RestoredNode) {
        Journal::open(directory, |_| {}).unwrap()
    }

    #[test]
    fn records_survive_and_the_newest_wins() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, restored) = reopen(directory.path());
        assert_eq!(restored.epoch, SessionEpoch(0));
        for epoch in 1..=3 {
            journal.append(&record(epoch)).unwrap();
        }
        assert_eq!(journal.progress().written, 3);
        drop(journal);
        assert_eq!(reopen(directory.path()).1.epoch, SessionEpoch(3));
    }

    #[test]
    fn a_torn_tail_is_cut_wherever_it_is_torn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let (mut journal, _) = reopen(directory.path());
        journal.append(&record(1)).unwrap();
        let whole = std::fs::read(&path).unwrap().len();
        journal.append(&record(2)).unwrap();
        drop(journal);
        let bytes = std::fs::read(&path).unwrap();
        for cut in whole..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert_eq!(
                reopen(directory.path()).1.epoch,
                SessionEpoch(1),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_flipped_bit_costs_the_record_that_it_is_in_and_a_copy_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let (mut journal, _) = reopen(directory.path());
        let start = std::fs::read(&path).unwrap().len();
        journal.append(&record(1)).unwrap();
        let first = std::fs::read(&path).unwrap().len();
        journal.append(&record(2)).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for bit in start * 8..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).unwrap();
            let left = if bit / 8 < first { 2 } else { 1 };
            let copy = path.with_extension("damaged");
            assert_eq!(
                reopen(directory.path()).1.epoch,
                SessionEpoch(left),
                "bit {bit}"
            );
            // Damage at the end cannot be told from a torn tail.
            let kept = std::fs::read(&copy).ok();
            assert_eq!(kept, (left == 2).then_some(bytes), "bit {bit}");
            if left == 2 {
                std::fs::remove_file(&copy).unwrap();
            }
        }
    }

    #[test]
    fn a_file_that_stays_large_is_not_compacted_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = reopen(directory.path());
        journal.end = COMPACT_BYTES + 1;
        assert!(journal.wants_compaction());
        journal.compacted = COMPACT_BYTES;
        assert!(!journal.wants_compaction());
        journal.end = 2 * COMPACT_BYTES + 1;
        assert!(journal.wants_compaction());
    }

    #[test]
    fn another_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), "hello world").unwrap();
        let error = Journal::open(directory.path(), |_| {}).unwrap_err();
        assert!(matches!(error, JournalError::NotAJournal { .. }));
    }

    #[test]
    fn a_sync_covers_everything_written_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let (told, synced) = sync_channel(16);
        let opened = Journal::open(directory.path(), move |count| {
            told.send(count).unwrap();
        });
        let (mut journal, _) = opened.unwrap();
        let run = RunKey::new(AllocId::from_u128(1), "t", RunEpoch(1));
        for _ in 0..5 {
            journal
                .append(&JournalRecord::Intent { run: run.clone() })
                .unwrap();
        }
        journal.request_sync();
        assert_eq!(synced.recv().unwrap(), 5);
        journal.on_synced(5);
        assert_eq!(
            journal.progress(),
            Progress {
                written: 5,
                synced: 5
            }
        );
    }

    #[test]
    fn a_compacted_journal_says_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = reopen(directory.path());
        for epoch in 1..=100 {
            journal.append(&record(epoch)).unwrap();
        }
        journal.compact(&[record(100)]).unwrap();
        journal.append(&record(101)).unwrap();
        drop(journal);
        assert_eq!(reopen(directory.path()).1.epoch, SessionEpoch(101));
    }

    #[test]
    fn a_full_disk_loses_nothing_and_is_told() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk");
        std::fs::create_dir(&disk).unwrap();
        isolation::scratch::mount(&disk, 64 * 1024, 0o700).unwrap();
        let (mut journal, _) = reopen(&disk);
        let mut epoch = 0;
        while !journal.is_stuck() {
            epoch += 1;
            journal.append(&record(epoch)).unwrap();
            assert!(epoch < 100_000, "the disk never filled");
        }
        let written = journal.progress().written;
        assert_eq!(written, epoch - 1);
        assert_eq!(journal.append(&record(epoch + 1)).unwrap(), epoch + 1);
        journal.retry().unwrap_err();
        assert_eq!(journal.progress().written, written);
        // More room, as when someone cleans up.
        let bigger = rustix::mount::mount_remount(
            &disk,
            rustix::mount::MountFlags::empty(),
            c"size=1048576",
        );
        bigger.unwrap();
        journal.retry().unwrap();
        assert_eq!(journal.progress().written, epoch + 1);
        drop(journal);
        assert_eq!(reopen(&disk).1.epoch, SessionEpoch(epoch + 1));
        isolation::scratch::unmount_all(&[disk]).unwrap();
    }

    #[test]
    fn after_a_failed_sync_only_a_new_file_is_trusted() {
        static BROKEN: AtomicBool = AtomicBool::new(true);
        fn sync(file: &File) -> io::Result<()> {
            if BROKEN.swap(false, Ordering::SeqCst) {
                return Err(io::Error::other("broken"));
            }
            file.sync_data()
        }
        let directory = tempfile::tempdir().unwrap();
        let (told, synced) = sync_channel(16);
        let opened = Journal::open_with(directory.path(), sync, move |count| {
            told.send(count).unwrap();
        });
        let (mut journal, _) = opened.unwrap();
        journal.append(&record(1)).unwrap();
        journal.request_sync();
        assert_eq!(synced.recv().unwrap(), 0);
        assert!(journal.is_untrusted() && journal.wants_compaction());
        journal.request_sync();
        journal.compact(&[record(1)]).unwrap();
        assert!(!journal.is_untrusted());
        assert_eq!(journal.progress().synced, 1);
        journal.append(&record(2)).unwrap();
        journal.request_sync();
        assert_eq!(synced.recv().unwrap(), 2);
    }
}
