//! The journal's file on the disk: read at the start, replaced when it has grown, with room kept
//! for the time when the disk is full.
//!
//! ```text
//!   | magic | records ... | reserve: allocated, beyond the end of the file |
//! ```
//!
//! What a node must be able to say on a full disk (that a task ended, that it was told to stop) are
//! a few records; the reserve is where they go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use noded_core::journal::{self, JournalRecord};
use rustix::fs::{FallocateFlags, fallocate};

use super::JournalError;
use super::frames::{self, MAGIC, Split, frame};

pub(super) const NAME: &str = "journal";
/// Allocated beyond the last record: some thousand records of a node whose disk is full.
pub(super) const RESERVE_BYTES: u64 = 4 * 1024 * 1024;
/// What `st_blocks` counts (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// An open file, and where its last whole record ends.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) end: u64,
}

/// A new file in the old one's place.
pub(super) struct Replaced {
    pub(super) file: File,
    pub(super) end: u64,
    /// Whether a crash of the host would find it there.
    pub(super) durable: Result<(), JournalError>,
}

/// What a file holds.
#[derive(Default)]
pub(super) struct Content {
    pub(super) records: Vec<JournalRecord>,
    /// Where the last whole record ends; 0 = there is no file.
    end: u64,
    /// Bytes behind that, which were never acknowledged.
    torn: usize,
}

pub(super) fn failed(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::File {
        operation,
        path,
        source,
    }
}

/// Every whole record. A damaged file stays under another name, so that nothing that is done with
/// the journal takes what could be looked at.
pub(super) fn read(directory: &Path) -> Result<Content, JournalError> {
    let path = directory.join(NAME);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
        Err(error) => return Err(failed("reading", &path)(error)),
    };
    let split = frames::split(&bytes);
    let Split {
        records: frames,
        torn,
        damaged,
    } = split.map_err(|_| JournalError::NotAJournal { path: path.clone() })?;
    if damaged > 0 {
        let copy = path.with_extension("damaged");
        keep_as(&path, &copy)?;
        tracing::error!(
            bytes = damaged,
            copy = %copy.display(),
            "the journal is damaged; what is whole in it is used, and the file is kept: look at \
             the disk"
        );
    }
    let mut records = Vec::with_capacity(frames.len());
    for record in frames {
        let record = journal::decode(record).map_err(|source| JournalError::Record {
            path: path.clone(),
            number: records.len(),
            source,
        })?;
        records.push(record);
    }
    if torn > 0 {
        tracing::warn!(
            bytes = torn,
            "the last record of the journal was incomplete and was cut off"
        );
    }
    Ok(Content {
        records,
        end: (bytes.len() - torn) as u64,
        torn,
    })
}

/// A second name, which stays when another file takes the first; it needs no room for the bytes.
fn keep_as(path: &Path, copy: &Path) -> Result<(), JournalError> {
    match std::fs::remove_file(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("removing", copy)(error));
        }
        Ok(()) | Err(_) => {}
    }
    std::fs::hard_link(path, copy).map_err(failed("linking", copy))
}

/// The file as it is, to go on with it where there is no room for a new one. `None` = there is
/// none yet.
pub(super) fn reopen(directory: &Path, content: &Content) -> Result<Option<Opened>, JournalError> {
    if content.end == 0 {
        return Ok(None);
    }
    let path = directory.join(NAME);
    let opened = OpenOptions::new().write(true).open(&path);
    let file = opened.map_err(failed("opening", &path))?;
    if content.torn > 0 {
        // It would come to light again behind shorter records.
        file.set_len(content.end)
            .map_err(failed("cutting", &path))?;
    }
    let end = content.end;
    Ok(Some(Opened { file, end }))
}

/// Writes a new file and puts it in the old one's place.
pub(super) fn replace(
    directory: &Path,
    records: &[JournalRecord],
) -> Result<Replaced, JournalError> {
    let mut bytes = MAGIC.to_vec();
    for record in records {
        bytes.extend(frame(
            &journal::encode(record).map_err(JournalError::Encode)?,
        ));
    }
    let (temporary, path) = (directory.join("journal.new"), directory.join(NAME));
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
    let file = write().map_err(|source| {
        // What it got to would fill the disk a little more.
        let _gone = std::fs::remove_file(&temporary);
        failed("writing", &path)(source)
    })?;
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

/// The room beyond the end of a file.
#[derive(Debug)]
pub(super) struct Reserve {
    /// Where it ends; 0 = there is none.
    end: u64,
    path: PathBuf,
    /// Whether its want was said.
    said: bool,
}

impl Reserve {
    /// What an open file has of it. Nothing of such a file is sparse, so that it ends where its
    /// blocks do.
    pub(super) fn of(file: &File, directory: &Path) -> Self {
        let mut reserve = Self {
            end: 0,
            path: directory.join(NAME),
            said: false,
        };
        reserve.measure(file);
        reserve
    }

    /// Another file is in use.
    pub(super) fn measure(&mut self, file: &File) {
        let blocks = file.metadata().map(|found| found.blocks());
        self.end = blocks.map_or(0, |blocks| blocks * BLOCK_BYTES);
    }

    /// Whether half of it is used up.
    pub(super) fn is_short(&self, end: u64) -> bool {
        self.end < end + RESERVE_BYTES / 2
    }

    /// Allocates what is missing of it; says where that fails, once until it succeeds. What is
    /// there is not asked for again: a file system may give it up when it cannot give the rest.
    pub(super) fn extend(&mut self, file: &File, end: u64) {
        let (from, to) = (self.end.max(end), end + RESERVE_BYTES);
        let length = to.saturating_sub(from).max(1);
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, length) {
            Ok(()) => {
                self.end = to;
                self.said = false;
            }
            Err(error) if !self.said => {
                self.said = true;
                tracing::warn!(
                    path = %self.path.display(), %error,
                    "no room can be kept for the journal: make some on its disk"
                );
            }
            Err(_) => {}
        }
    }
}
