//! The journal: framed records, written in groups, synced in groups, never by the caller.
//!
//! ```text
//!   append --> group --hand_over--> writer --> written --> syncer --> synced
//!                          `- wait_written: a moment, not longer
//! ```
//!
//! What depends on a record waits for it, and the loop that appends does not: heartbeats come from
//! the same loop, and a disk that hangs must not make a node look dead. Mostly the disk does not
//! hang, and a write takes a few microseconds: so long the loop waits on the spot
//! ([`Journal::wait_written`]), which costs less than turning round once more.
//!
//! A record that cannot be written (a full disk) waits in memory, and with it everything that was
//! to happen after it. The bytes are in [`frames`], the file in `file`, the threads in `writer`.

mod bell;
mod file;
pub mod frames;
mod records;
mod shared;
mod syncer;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use frames::frame;
use noded_core::journal::{self, JournalRecord, RestoredNode};
use protocol_error_chain::chain;
use protocol_transport::take_short_turns;

use bell::Bell;
use file::{Opened, RESERVE_BYTES, Replaced};
pub use records::Records;
use shared::{Compaction, Shared, Trust};
use writer::Writer;

/// Records that wait for room on the disk; beyond, the daemon gives up rather than its memory.
const BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Beyond this size, and twice what was left the last time, the file is replaced by the fewest
/// records that say the same.
const COMPACT_BYTES: u64 = 32 * 1024 * 1024;
/// How long the loop waits for a write. A healthy one takes a hundredth of it; heartbeats, which
/// wait meanwhile, are more than a hundred milliseconds apart.
const WRITE_PATIENCE: Duration = Duration::from_millis(2);
/// How long the end of the daemon waits for what is pending. What is lost then never happened:
/// nothing that depends on it was done.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

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
    /// A thread could not be started.
    #[error("the journal's threads cannot be started")]
    Thread(#[source] io::Error),
}

impl JournalError {
    /// Whether the disk is full, or the owner's share of it.
    fn is_want_of_room(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::File { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded))
    }
}

/// How far the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Records in the file.
    pub written: u64,
    /// Records on the disk.
    pub synced: u64,
}

/// How bytes get into a file and to the disk; others in tests.
#[derive(Clone, Copy)]
struct Disk {
    write: fn(&File, &[u8], u64) -> io::Result<()>,
    sync: fn(&File) -> io::Result<()>,
}

const DISK: Disk = Disk {
    write: |file, bytes, at| file.write_all_at(bytes, at),
    sync: File::sync_data,
};

/// The open journal, as its one user holds it.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    issued: u64,
    /// Framed records that were not handed over yet.
    group: Vec<u8>,
}

impl Journal {
    /// Reads the journal in `directory`, cuts a torn tail, and begins a compacted file; where there
    /// is no room for one, the old file goes on. `on_progress` is called on a thread of the
    /// journal's own when [`Self::progress`] or [`Self::wants_compaction`] say something new that
    /// was waited for.
    ///
    /// # Errors
    /// Where a file cannot be read or written, or a record is of another release.
    pub fn open(
        directory: &Path,
        on_progress: impl Fn() + Send + Sync + 'static,
    ) -> Result<(Self, RestoredNode), JournalError> {
        Self::open_with(directory, DISK, on_progress)
    }

    fn open_with(
        directory: &Path,
        disk: Disk,
        on_progress: impl Fn() + Send + Sync + 'static,
    ) -> Result<(Self, RestoredNode), JournalError> {
        let mut content = file::read(directory)?;
        let restored = journal::replay(std::mem::take(&mut content.records));
        let opened = match file::replace(directory, &journal::compact(&restored)) {
            Ok(Replaced { file, end, durable }) => {
                durable?;
                Opened { file, end }
            }
            Err(error) if error.is_want_of_room() => {
                let old = file::reopen(directory, &content)?.ok_or(error)?;
                tracing::error!(
                    directory = %directory.display(),
                    reserve = RESERVE_BYTES,
                    "the disk is full: the journal goes on in its reserve; make room"
                );
                old
            }
            Err(error) => return Err(error),
        };
        let bell = Bell::new().map_err(JournalError::Thread)?;
        let shared = Arc::new(Shared::new(opened, bell, Box::new(on_progress)));
        let writer = Writer::new(directory.to_owned(), disk, Arc::clone(&shared));
        let syncer = Arc::clone(&shared);
        spawn("journal", move || writer.run())?;
        spawn("journal-sync", move || syncer::run(&syncer, disk))?;
        let journal = Self {
            shared,
            issued: 0,
            group: Vec::new(),
        };
        Ok((journal, restored))
    }
}

impl Records for Journal {
    fn append(&mut self, record: &JournalRecord) -> Result<u64, JournalError> {
        let bytes = journal::encode(record).map_err(JournalError::Encode)?;
        self.issued += 1;
        self.group.extend(frame(&bytes));
        Ok(self.issued)
    }

    fn hand_over(&mut self) -> Result<(), JournalError> {
        if self.group.is_empty() {
            return Ok(());
        }
        let mut state = self.shared.lock();
        if state.pending.len() + self.group.len() > BACKLOG_BYTES_MAX {
            return Err(JournalError::BacklogFull);
        }
        if state.pending.is_empty() {
            std::mem::swap(&mut state.pending, &mut self.group);
        } else {
            state.pending.append(&mut self.group);
        }
        state.pending_upto = self.issued;
        drop(state);
        self.shared.work.ring();
        Ok(())
    }

    fn wait_written(&self) {
        self.shared.wait_written(WRITE_PATIENCE);
    }

    fn request_sync(&self) {
        let mut state = self.shared.lock();
        state.sync_upto = self.issued;
        drop(state);
        self.shared.sync_work.notify_one();
    }

    fn issued(&self) -> u64 {
        self.issued
    }

    fn progress(&self) -> Progress {
        self.shared.progress()
    }

    fn wants_compaction(&self) -> bool {
        let state = self.shared.lock();
        let large = state.end > COMPACT_BYTES.max(2 * state.compacted);
        (large || state.trust == Trust::Lost)
            && matches!(state.compaction, Compaction::None)
            && state.written == self.issued
    }

    fn compact(&mut self, records: Vec<JournalRecord>) {
        let upto = self.issued;
        self.shared.lock().compaction = Compaction::Wanted { records, upto };
        self.shared.work.ring();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), JournalError> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    let run = || {
        take_short_turns();
        run();
    };
    builder.spawn(run).map_err(JournalError::Thread)?;
    Ok(())
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Err(error) = self.hand_over() {
            tracing::error!(error = %chain(&error), "the journal's end is not written");
        }
        self.shared.close(CLOSE_PATIENCE);
    }
}
