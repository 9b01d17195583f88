//! Writes one stream's bytes to its rotated files: the thin shell around [`Rotation`].
//!
//! ```text
//!            write fails                         room for the note
//!  writing -------------> dropping (N counted) -------------------> writing
//!                          ^   |  write of the note fails
//!                          +---+
//! ```
//!
//! The count outlives pump (`dropped`), and so does what it says.
//!
//! Writes are plain and inline: a ring would hand buffered file writes to worker threads, which
//! costs more than the write. A disk that refuses bytes never holds a task up: the bytes are
//! dropped and counted, and the count is written into the log itself as soon as it fits.

mod dropping;

use super::dropped::{DropRecord, Dropped};
use super::rotation::{LineState, Next, Rotation};
use crate::io::{LogLimits, StreamSpec};
use crate::paths::{PathsError, open_directory};
use rustix::fs::{self, AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::ffi::CStr;
use std::num::{NonZeroU32, NonZeroU64};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Files of a directory that are looked at to find the newest number.
const ENTRIES_MAX: usize = 100_000;

/// Why a log cannot be opened at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("the trusted part of the log path cannot be opened")]
    Base(#[source] PathsError),
    #[error("log directory {} cannot be opened beneath its base", .path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("log directory {} cannot be read", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: Errno,
    },
}

/// The files of one stream.
#[derive(Debug)]
pub(crate) struct Log {
    directory: OwnedFd,
    prefix: String,
    rotation: Rotation,
    /// Open only while it is written to; see [`Log::close_file`].
    file: Option<OwnedFd>,
    dropped: Option<Dropped>,
    record: DropRecord,
}

impl Log {
    /// Continues the newest file in the log directory, or begins with number 0. Bytes that an
    /// earlier pump dropped and had not told are this one's to tell.
    pub(crate) fn open(spec: &StreamSpec, record: DropRecord) -> Result<Self, LogError> {
        let base = open_directory(&spec.log_base).map_err(LogError::Base)?;
        let path = &spec.log_directory;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = if path.as_os_str().is_empty() {
            base
        } else {
            fs::openat2(&base, path, flags, Mode::empty(), resolve).map_err(|source| {
                LogError::Directory {
                    path: path.clone(),
                    source,
                }
            })?
        };
        let numbers =
            file_numbers(&directory, &spec.file_prefix).map_err(|source| LogError::Read {
                path: path.clone(),
                source,
            })?;
        let (max_files, max_file_size_bytes) = nonzero(spec.limits);
        let index = numbers.iter().copied().max().unwrap_or(0);
        let rotation = Rotation::new(max_files, max_file_size_bytes, index, 0, LineState::AtStart);
        let prefix = spec.file_prefix.clone();
        let mut log = Self {
            directory,
            prefix,
            rotation,
            file: None,
            dropped: record.load(),
            record,
        };
        for number in numbers {
            if log
                .rotation
                .surplus()
                .is_some_and(|surplus| surplus.contains(&number))
            {
                log.remove(number);
            }
        }
        log.settle_earlier();
        Ok(log)
    }

    pub(crate) fn set_limits(&mut self, limits: LogLimits) {
        let (max_files, max_file_size_bytes) = nonzero(limits);
        self.rotation.set_limits(max_files, max_file_size_bytes);
    }

    /// Appends, or drops and counts. Answers whether this file had to be opened for it.
    pub(crate) fn append(&mut self, mut input: &[u8]) -> Opened {
        let was_open = self.file.is_some();
        if self.dropped.is_some() {
            self.tell_dropped();
        }
        while !input.is_empty() && self.dropped.is_none() {
            input = match self.append_some(input) {
                Ok(rest) => rest,
                Err((rest, errno)) => {
                    let since = self.place();
                    self.dropped = Some(Dropped {
                        bytes: 0,
                        errno,
                        since,
                    });
                    rest
                }
            };
        }
        self.drop_bytes(input.len());
        if was_open || self.file.is_none() {
            Opened::No
        } else {
            Opened::Yes
        }
    }

    /// Gives the descriptor back; the next write opens the file again.
    pub(crate) fn close_file(&mut self) {
        self.file = None;
    }

    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped.is_some()
    }

    fn append_some<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], (&'a [u8], Errno)> {
        if let Err(errno) = self.ensure_open() {
            return Err((input, errno));
        }
        let placement = self.rotation.place(input);
        let (now, later) = input.split_at(placement.bytes);
        let mut rest = now;
        while let (false, Some(file)) = (rest.is_empty(), &self.file) {
            match io::write(file, rest) {
                Ok(0) => return Err((&input[now.len() - rest.len()..], Errno::NOSPC)),
                Ok(count) => {
                    let (written, unwritten) = rest.split_at(count);
                    self.rotation.on_written(written);
                    rest = unwritten;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err((&input[now.len() - rest.len()..], errno)),
            }
        }
        if placement.next == Next::Rotate {
            self.rotate();
        }
        Ok(later)
    }

    fn rotate(&mut self) {
        self.file = None;
        if let Some(surplus) = self.rotation.on_rotated() {
            // Each rotation makes one file surplus; older ones went before, or at open.
            self.remove(*surplus.end());
        }
    }

    fn remove(&self, number: u64) {
        // Absent is what we want; anything else is tried again at the next open.
        let _ = fs::unlinkat(&self.directory, self.file_name(number), AtFlags::empty());
    }

    /// Opens the newest file and learns its size. A file that is not a plain one of ours (the task
    /// may write in this directory) is left alone: the next number is taken instead.
    fn ensure_open(&mut self) -> Result<(), Errno> {
        const FOREIGN_FILES_MAX: usize = 16;
        if self.file.is_some() {
            return Ok(());
        }
        for _ in 0..FOREIGN_FILES_MAX {
            let flags = OFlags::RDWR
                | OFlags::APPEND
                | OFlags::CREATE
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK
                | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
            let index = self.rotation.index();
            match fs::openat(&self.directory, self.file_name(index), flags, mode) {
                Ok(file) => {
                    let metadata = fs::fstat(&file)?;
                    let kind = fs::FileType::from_raw_mode(metadata.st_mode);
                    if kind == fs::FileType::RegularFile && metadata.st_nlink <= 1 {
                        let size = u64::try_from(metadata.st_size).unwrap_or(0);
                        self.resume(&file, size)?;
                        self.file = Some(file);
                        return Ok(());
                    }
                }
                Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {}
                Err(errno) => return Err(errno),
            }
            if let Some(surplus) = self.rotation.on_rotated() {
                self.remove(*surplus.end());
            }
        }
        Err(Errno::MLINK)
    }

    /// Takes the file's true size over: someone may have truncated it, and after a restart nothing
    /// is known.
    fn resume(&mut self, file: &OwnedFd, size_bytes: u64) -> Result<(), Errno> {
        let mut last = [b'\n'];
        if let Some(offset) = size_bytes.checked_sub(1) {
            io::pread(file, &mut last, offset)?;
        }
        let line = if last[0] == b'\n' {
            LineState::AtStart
        } else {
            LineState::Within
        };
        self.rotation.resume(size_bytes, line);
        Ok(())
    }

    fn file_name(&self, number: u64) -> String {
        format!("{}.{number}", self.prefix)
    }
}

/// Whether a call took a descriptor that was not taken before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    Yes,
    No,
}

fn nonzero(limits: LogLimits) -> (NonZeroU32, NonZeroU64) {
    (
        NonZeroU32::new(limits.max_files).unwrap_or(NonZeroU32::MIN),
        NonZeroU64::new(limits.max_file_size_bytes).unwrap_or(NonZeroU64::MIN),
    )
}

fn file_numbers(directory: &OwnedFd, prefix: &str) -> Result<Vec<u64>, Errno> {
    let entries = fs::Dir::read_from(directory)?;
    let mut numbers = Vec::new();
    for entry in entries.take(ENTRIES_MAX) {
        numbers.extend(file_number(entry?.file_name(), prefix));
    }
    Ok(numbers)
}

/// The number in `<prefix>.<number>`, in its only spelling.
fn file_number(name: &CStr, prefix: &str) -> Option<u64> {
    let digits = name
        .to_str()
        .ok()?
        .strip_prefix(prefix)?
        .strip_prefix('.')?;
    let number = digits.parse::<u64>().ok()?;
    // The greatest number is never reached by rotation: room for one more must stay.
    (number.to_string() == digits && number < u64::from(u32::MAX)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pump::dropped::Place;
    use std::rc::Rc;

    #[test]
    fn a_note_that_an_earlier_pump_wrote_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let flags = OFlags::DIRECTORY;
        let directory = Rc::new(fs::open(folder.path(), flags, Mode::empty()).unwrap());
        let record = || DropRecord::new(&directory, "a.web.stdout");
        let spec = StreamSpec {
            log_base: folder.path().to_owned(),
            log_directory: PathBuf::new(),
            file_prefix: "web.stdout".into(),
            limits: LogLimits {
                max_files: 2,
                max_file_size_bytes: 1000,
            },
            run_epoch: 1,
        };
        let dropped = |size_bytes| Dropped {
            bytes: 70,
            errno: Errno::NOSPC,
            since: Place {
                file: 0,
                size_bytes,
            },
        };
        let told = format!("x\n{}", dropped(0).note());
        let path = folder.path().join("web.stdout.0");
        // Killed after the note, before the count was removed.
        std::fs::write(&path, &told).unwrap();
        record().store(&dropped(2)).unwrap();
        assert!(!Log::open(&spec, record()).unwrap().has_dropped());
        assert_eq!(record().load(), None);
        // As many again, and no note yet.
        record().store(&dropped(told.len() as u64)).unwrap();
        let mut log = Log::open(&spec, record()).unwrap();
        assert!(log.has_dropped());
        log.append(b"y\n");
        let expected = format!("{told}{}y\n", dropped(0).note());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(record().load(), None);
        // Half a note is none.
        std::fs::write(&path, &told[..told.len() - 5]).unwrap();
        record().store(&dropped(2)).unwrap();
        assert!(Log::open(&spec, record()).unwrap().has_dropped());
    }
}
