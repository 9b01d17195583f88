//! What a server's log, snapshots and promise are kept on: a host's files, or whatever a simulator
//! has in their place. Paths are names in it; every operation but [`DiskFile::append`] may block.

use std::fmt::Debug;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;

/// A place for files.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Makes a directory where it is missing, durably, and closes it to everyone but its owner.
    ///
    /// # Errors
    /// When the disk refuses.
    fn make_private(&self, directory: &Path) -> io::Result<()>;

    /// Takes `path` for this process until what is returned is dropped; `None` = another has it.
    ///
    /// # Errors
    /// When the disk refuses.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;

    /// Whether there is anything of this name.
    fn exists(&self, path: &Path) -> bool;

    /// What is in a directory, in any order.
    ///
    /// # Errors
    /// When the disk refuses.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// A file's whole content.
    ///
    /// # Errors
    /// When there is no such file, or the disk refuses.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Opens a file, for its owner only where it is made.
    ///
    /// # Errors
    /// When it is not as `opening` says, or the disk refuses.
    fn open(&self, path: &Path, opening: Opening) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, in place of the file that has it.
    ///
    /// # Errors
    /// When the disk refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Who has it open may go on.
    ///
    /// # Errors
    /// When there is no such file, or the disk refuses.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes names in a directory durable: new ones, other ones, removals.
    ///
    /// # Errors
    /// When the disk refuses.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Runs the log's one writer until it ends, where its waiting for the disk holds nobody up.
    ///
    /// # Errors
    /// When there is no thread for it.
    fn run_writer(&self, name: &'static str, writer: BoxFuture<'static, ()>) -> io::Result<()>;

    /// Does something that takes long beside the writer.
    ///
    /// # Errors
    /// When there is no thread for it.
    fn run_beside(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) -> io::Result<()>;
}

/// Bytes of a large file that are written between two syncs: what others sync meanwhile, the log
/// above all, waits for no more than this.
pub(super) const UNSYNCED_MAX: usize = 512 * 1024;

/// A directory that is taken, until this is dropped.
pub trait Lock: Debug + Send + Sync {}

/// What is expected where a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// It is there, and is only read.
    Reading,
    /// It is there, and its content stays.
    Existing,
    /// It may be there, and is empty afterwards.
    Emptied,
    /// It is not there.
    New,
}

/// An open file. It stays what it is when its name goes.
pub trait DiskFile: Debug + Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// When the disk refuses.
    fn length(&self) -> io::Result<u64>;

    /// Reads at a place; 0 bytes = there is nothing.
    ///
    /// # Errors
    /// When the disk refuses.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of it, not durably.
    ///
    /// # Errors
    /// When the disk refuses; how much was written is not known.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes durable whatever was written.
    ///
    /// # Errors
    /// When the disk refuses; what is durable is not known.
    fn sync(&self) -> io::Result<()>;

    /// Writes a group of the log over bytes that exist, and makes it durable. Only the log's writer
    /// waits for it.
    ///
    /// # Errors
    /// When the disk refuses; what of it is durable is not known.
    fn append<'a>(&'a self, bytes: &'a [u8], offset: u64) -> BoxFuture<'a, io::Result<()>>;
}

/// Reads all of `buffer` at a place.
pub(super) fn read_exact_at(
    file: &dyn DiskFile,
    mut buffer: &mut [u8],
    mut offset: u64,
) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// A file that is read, or written, from its beginning on.
#[derive(Debug)]
pub(crate) struct Cursor {
    file: Arc<dyn DiskFile>,
    at: u64,
    /// Bytes written since the last sync.
    unsynced: usize,
}

impl Cursor {
    pub(crate) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self {
            file,
            at: 0,
            unsynced: 0,
        }
    }

    /// Goes on somewhere else.
    pub(super) fn seek(&mut self, at: u64) {
        self.at = at;
    }
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl io::Write for Cursor {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write_at(buffer, self.at)?;
        self.at += buffer.len() as u64;
        self.unsynced += buffer.len();
        if self.unsynced >= UNSYNCED_MAX {
            self.file.sync()?;
            self.unsynced = 0;
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
