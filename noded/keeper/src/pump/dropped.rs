//! The count of a stream's dropped bytes, kept on the runtime tmpfs until the log itself tells it:
//! a full disk is when pump may well be restarted, and what is missing must not be forgotten then.
//!
//! ```text
//!   bytes are dropped --> count written --> note in the log --> count removed
//! ```
//!
//! Killed between the first two, pump loses the count of one read buffer at most. Killed between
//! the last two, it finds the note behind the place where the log stood, and removes the count.

use crate::io::{SpecError, seal, unseal};
use crate::report::tell;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::{self, Errno};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// Ends the name of a stream's count, in the io directory.
pub(crate) const DROPPED_SUFFIX: &str = ".dropped";

/// The version of the file.
const VERSION: u8 = 1;

/// Bytes that no file has, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) bytes: u64,
    pub(crate) errno: Errno,
    /// Where the log stood when the first of them was dropped.
    pub(crate) since: Place,
}

/// The end of a log: its newest file, and that file's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: u64,
    pub(crate) size_bytes: u64,
}

/// As it is on disk: always of the same length, so that one write replaces it whole.
#[derive(Debug, Serialize, Deserialize)]
struct Frozen {
    #[serde(with = "postcard::fixint::le")]
    bytes: u64,
    #[serde(with = "postcard::fixint::le")]
    errno: i32,
    #[serde(with = "postcard::fixint::le")]
    file: u64,
    #[serde(with = "postcard::fixint::le")]
    size_bytes: u64,
}

impl Dropped {
    /// What the log says of them, as a line of its own.
    pub(crate) fn note(&self) -> String {
        let Self { bytes, errno, .. } = self;
        let reason = describe(*errno);
        format!("[drover: {bytes} bytes of output dropped: {reason}]\n")
    }

    fn encode(&self) -> Result<Vec<u8>, SpecError> {
        let Self {
            bytes,
            errno,
            since: Place { file, size_bytes },
        } = *self;
        let errno = errno.raw_os_error();
        let frozen = Frozen {
            bytes,
            errno,
            file,
            size_bytes,
        };
        seal(VERSION, &frozen)
    }

    fn decode(bytes: &[u8]) -> Result<Self, SpecError> {
        let Frozen {
            bytes,
            errno,
            file,
            size_bytes,
        } = unseal(VERSION, bytes)?;
        Ok(Self {
            bytes,
            errno: Errno::from_raw_os_error(errno.clamp(1, 4095)),
            since: Place { file, size_bytes },
        })
    }
}

/// Where one stream's count is kept.
#[derive(Debug)]
pub(crate) struct DropRecord {
    directory: Rc<OwnedFd>,
    name: String,
}

impl DropRecord {
    pub(crate) fn new(directory: &Rc<OwnedFd>, stream: &str) -> Self {
        Self {
            directory: Rc::clone(directory),
            name: format!("{stream}{DROPPED_SUFFIX}"),
        }
    }

    /// What an earlier pump had not told; a damaged count is told on stderr, and is none.
    pub(crate) fn load(&self) -> Option<Dropped> {
        let bytes = match crate::durable::read(self.directory.as_fd(), &self.name) {
            Ok(bytes) => bytes,
            Err(Errno::NOENT) => return None,
            Err(errno) => {
                tell!("pump: {} cannot be read: {errno}", self.name);
                return None;
            }
        };
        match Dropped::decode(&bytes) {
            Ok(dropped) => Some(dropped),
            Err(error) => {
                tell!("pump: {}: {error}; how much was dropped is lost", self.name);
                None
            }
        }
    }

    /// One write and no rename: the directory is watched, and this may come with every read.
    ///
    /// # Errors
    /// The tmpfs is full too, or too many files are open. The count goes on in memory.
    pub(crate) fn store(&self, dropped: &Dropped) -> Result<(), Errno> {
        let bytes = dropped.encode().map_err(|_| Errno::MSGSIZE)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = fs::openat(&*self.directory, &self.name, flags, mode)?;
        match io::pwrite(&file, &bytes, 0)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(Errno::NOSPC),
        }
    }

    pub(crate) fn remove(&self) {
        match fs::unlinkat(&*self.directory, &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => tell!("pump: {} cannot be removed: {errno}", self.name),
        }
    }
}

/// The words of strerror(3), without the number that Rust adds.
fn describe(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn record(folder: &tempfile::TempDir) -> DropRecord {
        let flags = OFlags::DIRECTORY;
        let directory = fs::open(folder.path(), flags, Mode::empty()).unwrap();
        DropRecord::new(&Rc::new(directory), "a.web.stdout")
    }

    fn dropped(bytes: u64) -> Dropped {
        Dropped {
            bytes,
            errno: Errno::NOSPC,
            since: Place {
                file: 3,
                size_bytes: 70_000,
            },
        }
    }

    #[test]
    fn the_bytes_of_a_count_are_frozen() {
        let bytes = dropped(123_456).encode().unwrap();
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
        let path = folder.join("dropped.bin");
        if !path.exists() && std::env::var_os("DROVER_BLESS").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(Dropped::decode(&bytes).unwrap(), dropped(123_456));
    }

    #[test]
    fn the_newest_count_is_what_is_found_and_a_removed_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let record = record(&folder);
        assert_eq!(record.load(), None);
        for bytes in [u64::MAX, 1, 70_000] {
            record.store(&dropped(bytes)).unwrap();
            assert_eq!(record.load(), Some(dropped(bytes)));
        }
        record.remove();
        record.remove();
        assert_eq!(record.load(), None);
    }

    #[test]
    fn rubbish_is_no_count() {
        let folder = tempfile::tempdir().unwrap();
        let record = record(&folder);
        let whole = dropped(1).encode().unwrap();
        for length in 0..whole.len() {
            std::fs::write(folder.path().join("a.web.stdout.dropped"), &whole[..length]).unwrap();
            assert_eq!(record.load(), None);
        }
    }
}
