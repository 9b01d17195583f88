//! The files of the log: one is written, the next is prepared beside it.
//!
//! A file is filled with zeros before its first group: writing over blocks that exist costs a sync
//! half of what growing a file does, because no metadata changes. The next file is prepared on a
//! thread of its own once half of the current one is used, so that nobody waits for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use super::disk::{Disk, DiskFile, Opening, UNSYNCED_MAX};
use super::log_end::Reached;
use super::segment::{Group, HEADER_BYTES, Header};
use crate::member::ServerId;

/// The first file; each further one is twice as long, up to [`SEGMENT_BYTES_MAX`], so that a
/// server with little to do keeps little.
pub(super) const SEGMENT_BYTES_MIN: u64 = 1024 * 1024;
const SEGMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How long a file is prepared at least that follows one of `before` bytes; 0 = it is the first.
pub(super) fn bytes_min(before: u64) -> u64 {
    (before * 2).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

/// Zeros written between two syncs while a file is prepared.
const ZEROS: &[u8] = &[0; UNSYNCED_MAX];

const SUFFIX: &str = "segment";

/// The file of segment `number`.
pub(super) fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}.{SUFFIX}"))
}

/// The number that a file's name says; `None` = it is no segment.
pub(super) fn number_of(path: &Path) -> Option<u64> {
    let is_segment = path.extension().is_some_and(|found| found == SUFFIX);
    let digits = path.file_stem()?.to_str().filter(|_| is_segment)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (digits.len() == 16).then_some(number)
}

/// Makes the file of segment `number`, full of zeros and durable.
fn prepare(
    disk: &dyn Disk,
    directory: &Path,
    number: u64,
    bytes: u64,
) -> io::Result<Arc<dyn DiskFile>> {
    let path = path_of(directory, number);
    let fill = || {
        let file = disk.open(&path, Opening::Emptied)?;
        let mut at = 0;
        while at < bytes {
            let rest = usize::try_from(bytes - at).unwrap_or(usize::MAX);
            let zeros = &ZEROS[..rest.min(ZEROS.len())];
            file.write_at(zeros, at)?;
            file.sync()?;
            at += zeros.len() as u64;
        }
        file.sync()?;
        disk.sync_directory(directory)?;
        Ok(file)
    };
    fill().map_err(|error: io::Error| {
        // What it got to would fill the disk a little more.
        let _gone = disk.remove(&path);
        let text = format!("preparing {} ({bytes} bytes): {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

/// The file that is written, and what comes after it.
#[derive(Debug)]
pub(super) struct Segments {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    server: ServerId,
    number: u64,
    file: Arc<dyn DiskFile>,
    /// Where the last group ends.
    end: u64,
    /// The length of the file.
    bytes: u64,
    /// The next file, once it is prepared: somebody is at it.
    next: Option<Receiver<io::Result<Arc<dyn DiskFile>>>>,
}

/// Where a group went.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) segment: u64,
    /// Where the group begins.
    pub(super) offset: u64,
    /// The segment's file, if this is its first group.
    pub(super) new_file: Option<Arc<dyn DiskFile>>,
}

impl Segments {
    /// Goes on with a file whose last group ends at `end`.
    pub(super) fn resume(
        disk: &Arc<dyn Disk>,
        directory: PathBuf,
        server: ServerId,
        number: u64,
        file: Arc<dyn DiskFile>,
        end: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            disk: Arc::clone(disk),
            directory,
            server,
            number,
            bytes: file.length()?,
            file,
            end,
            next: None,
        })
    }

    /// Makes a log: its first segment, with `standing` in it.
    pub(super) fn create(
        disk: &Arc<dyn Disk>,
        directory: PathBuf,
        server: ServerId,
        standing: &mut Group,
    ) -> io::Result<Self> {
        let mut segments = Self {
            file: prepare(&**disk, &directory, 1, SEGMENT_BYTES_MIN)?,
            disk: Arc::clone(disk),
            directory,
            server,
            number: 1,
            end: 0,
            bytes: SEGMENT_BYTES_MIN,
            next: None,
        };
        let first = segments.beginning(0, standing);
        segments.file.write_at(&first, 0)?;
        segments.file.sync()?;
        segments.end = first.len() as u64;
        Ok(segments)
    }

    pub(super) fn file(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file)
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The last place that is durable.
    pub(super) fn reached(&self) -> Reached {
        Reached {
            segment: self.number,
            end: self.end,
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes a group durable. Where it begins another segment, `standing` goes in front of it:
    /// what must still be known when the segments before are gone. Blocks as its disk does.
    pub(super) async fn append(
        &mut self,
        group: &mut Group,
        standing: &mut Group,
    ) -> io::Result<Written> {
        let rotate = self.end + group.len() as u64 > self.bytes;
        if rotate {
            let mut bytes = self.rotate(group, standing)?;
            let offset = bytes.len() as u64;
            bytes.extend_from_slice(group.finish(self.number, offset));
            self.write(&bytes).await?;
            return Ok(Written {
                segment: self.number,
                offset,
                new_file: Some(self.file()),
            });
        }
        let offset = self.end;
        self.write(group.finish(self.number, offset)).await?;
        if self.next.is_none() && self.end > self.bytes / 2 {
            self.prepare_next();
        }
        Ok(Written {
            segment: self.number,
            offset,
            new_file: None,
        })
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes, self.end).await?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Begins the next segment; returns its first bytes.
    fn rotate(&mut self, group: &Group, standing: &mut Group) -> io::Result<Vec<u8>> {
        let needed = (HEADER_BYTES + standing.len() + group.len()) as u64;
        let usual = self.next_bytes();
        let number = self.number + 1;
        let prepared = match self.next.take().map(|next| next.recv()) {
            Some(Ok(Ok(file))) if needed <= usual => Some(file),
            Some(Ok(Err(error))) => {
                // Room may have been made since.
                tracing::warn!(
                    %error,
                    "the next log segment was not prepared in advance; the next write prepares it"
                );
                None
            }
            _ => None,
        };
        let (file, bytes) = match prepared {
            Some(file) => {
                let bytes = file.length()?;
                (file, bytes)
            }
            None => {
                let bytes = usual.max(needed);
                (prepare(&*self.disk, &self.directory, number, bytes)?, bytes)
            }
        };
        let previous_end = self.end;
        self.number = number;
        self.file = file;
        self.end = 0;
        self.bytes = bytes;
        Ok(self.beginning(previous_end, standing))
    }

    /// The current segment's header and first group.
    fn beginning(&self, previous_end: u64, standing: &mut Group) -> Vec<u8> {
        let header = Header {
            server: self.server,
            number: self.number,
            previous_end,
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(standing.finish(self.number, HEADER_BYTES as u64));
        bytes
    }

    /// How long the next file is, unless its first group needs more.
    fn next_bytes(&self) -> u64 {
        bytes_min(self.bytes)
    }

    fn prepare_next(&mut self) {
        let (directory, number) = (self.directory.clone(), self.number + 1);
        let bytes = self.next_bytes();
        let disk = Arc::clone(&self.disk);
        let (done, next) = sync_channel(1);
        let work = move || {
            // Whoever waited is gone where the answer is not taken.
            let _ = done.send(prepare(&*disk, &directory, number, bytes));
        };
        match self.disk.run_beside("raft-log-next", Box::new(work)) {
            Ok(()) => self.next = Some(next),
            Err(error) => tracing::debug!(%error, "no thread: the next segment is prepared late"),
        }
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        // Whoever opens the log next must not meet a file that is still being filled.
        if let Some(next) = self.next.take() {
            let _unused = next.recv();
        }
    }
}
