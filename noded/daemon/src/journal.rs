//! The journal's file: framed records, appended at once, synced in groups.
//!
//! ```text
//!   magic | length crc32 record | length crc32 record | ... | torn tail (cut at the next start)
//!
//!   append --> written --(syncer thread: one fdatasync for all that was written)--> synced
//! ```
//!
//! A record that cannot be written (a full disk) waits in memory, and with it everything that was
//! to happen after it; [`Journal::retry`] tries again.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use noded_core::journal::{self, JournalRecord, RestoredNode};

const MAGIC: &[u8; 8] = b"DRVRJNL1";
const FRAME_BYTES: usize = 8;
/// A record is one allocation or one job; far below this.
const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Records that wait for room on the disk; beyond, the daemon gives up rather than its memory.
const BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Beyond this size the file is replaced by the fewest records that say the same.
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
        let (file, end) = replace(directory, &compacted)?;
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
        (self.end > COMPACT_BYTES || self.is_untrusted()) && self.backlog.is_empty()
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
    /// Where the new file cannot be written; the old one stays in use.
    pub fn compact(&mut self, records: &[JournalRecord]) -> Result<(), JournalError> {
        let (file, end) = replace(&self.directory, records)?;
        self.file = Arc::new(file);
        self.end = end;
        self.sync_failed.store(false, Ordering::Release);
        self.synced = self.issued;
        self.written.store(self.issued, Ordering::Release);
        Ok(())
    }

    fn write_first(&mut self) -> io::Result<()> {
        let Some(bytes) = self.backlog.front() else {
            return Ok(());
        };
        // At a fixed place: what an earlier attempt left half-written is written over.
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.backlog_bytes = self.backlog_bytes.saturating_sub(bytes.len() - FRAME_BYTES);
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

fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(FRAME_BYTES + bytes.len());
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    framed.extend_from_slice(bytes);
    framed
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
    let Some(mut rest) = bytes.strip_prefix(MAGIC.as_slice()) else {
        return Err(JournalError::NotAJournal {
            path: path.to_owned(),
        });
    };
    let mut records = Vec::new();
    while let Some((record, tail)) = next_frame(rest) {
        let record = journal::decode(record).map_err(|source| JournalError::Record {
            path: path.to_owned(),
            number: records.len(),
            source,
        })?;
        records.push(record);
        rest = tail;
    }
    if !rest.is_empty() {
        tracing::warn!(
            bytes = rest.len(),
            "the journal ended in a torn record, which is cut off"
        );
    }
    Ok(records)
}

fn next_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(FRAME_BYTES)?;
    let (length, checksum) = header.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let checksum = u32::from_le_bytes(checksum.try_into().ok()?);
    if length == 0 || length > RECORD_BYTES_MAX {
        return None;
    }
    let (record, tail) = rest.split_at_checked(length)?;
    (crc32fast::hash(record) == checksum).then_some((record, tail))
}

/// Writes a new file and puts it in the old one's place.
fn replace(directory: &Path, records: &[JournalRecord]) -> Result<(File, u64), JournalError> {
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
        File::open(directory)?.sync_all()?;
        Ok(file)
    };
    let file = write().map_err(failed("writing", &path))?;
    Ok((file, bytes.len() as u64))
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
    fn a_flipped_bit_ends_the_journal_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let (mut journal, _) = reopen(directory.path());
        journal.append(&record(1)).unwrap();
        journal.append(&record(2)).unwrap();
        drop(journal);
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(reopen(directory.path()).1.epoch, SessionEpoch(1));
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
