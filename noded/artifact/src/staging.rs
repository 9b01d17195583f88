//! The staging directory of one artifact: all that a fetch writes is below it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::place;
use crate::staged_tree::{OnlyFile, StagedTree};

/// The finished artifact, below the staging directory.
pub const ARTIFACT: &str = "artifact";
/// Mode of a file whose source names none.
const PLAIN_FILE: u32 = 0o644;

/// The staging directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {name:?} in the staging directory")]
pub struct StagingError {
    operation: &'static str,
    name: String,
    #[source]
    source: io::Error,
}

impl StagingError {
    pub(crate) fn of(operation: &'static str, name: &str) -> impl Fn(Errno) -> Self {
        let name = name.to_owned();
        move |errno| Self {
            operation,
            name: name.clone(),
            source: errno.into(),
        }
    }
}

/// An empty directory on the file system of the destination, which nobody else can enter.
#[derive(Debug)]
pub struct Staging {
    directory: OwnedFd,
    path: PathBuf,
}

impl Staging {
    /// `directory` is open; `path` leads to it for the programs that are started (git).
    pub fn new(directory: OwnedFd, path: PathBuf) -> Self {
        Self { directory, path }
    }

    /// The directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An empty file for reading and writing.
    pub(crate) fn create(&self, name: &str) -> Result<File, StagingError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&self.directory, name, flags, Mode::from_raw_mode(0o600));
        Ok(File::from(file.map_err(StagingError::of("making", name))?))
    }

    /// A file that only its owner reads.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), StagingError> {
        let mut file = self.create(name)?;
        file.write_all(content).map_err(|source| StagingError {
            operation: "writing",
            name: name.to_owned(),
            source,
        })
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), StagingError> {
        fs::unlinkat(&self.directory, name, AtFlags::empty())
            .map_err(StagingError::of("removing", name))
    }

    /// A tree of entries below a new directory.
    pub(crate) fn tree(&self, name: &str) -> Result<StagedTree, StagingError> {
        let root = place::open_or_make(&self.directory, OsStr::new(name));
        root.map(StagedTree::new)
            .map_err(StagingError::of("making", name))
    }

    /// A tree whose root is the staging directory, for an artifact that is one file.
    pub(crate) fn only_file(&self) -> Result<OnlyFile, StagingError> {
        let root = rustix::io::fcntl_dupfd_cloexec(&self.directory, 0);
        root.map(StagedTree::new)
            .map(OnlyFile::new)
            .map_err(StagingError::of("opening", ARTIFACT))
    }

    /// Moves an entry below the staging directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), StagingError> {
        fs::renameat(&self.directory, from, &self.directory, to)
            .map_err(StagingError::of("renaming", from))
    }

    /// Gives a plain file the mode that files of a download have.
    pub(crate) fn finish_file(file: &File) -> Result<(), StagingError> {
        fs::fchmod(file, Mode::from_raw_mode(PLAIN_FILE))
            .map_err(StagingError::of("setting the mode of", "download"))
    }

    /// Makes a directory of a staged tree the artifact; `false` where it is none.
    pub(crate) fn take_directory(&self, tree: &str, sub: &str) -> Result<bool, StagingError> {
        let at = |operation| StagingError::of(operation, sub);
        let path = Path::new(tree).join(sub);
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(false);
        };
        let above = match place::open(&self.directory, above.as_os_str()) {
            Ok(above) => above,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
            Err(errno) => return Err(at("opening")(errno)),
        };
        let about = place::about(&above, name).map_err(at("examining"))?;
        if about.is_none_or(|about| place::kind(&about) != FileType::Directory) {
            return Ok(false);
        }
        fs::renameat(&above, name, &self.directory, ARTIFACT).map_err(at("renaming"))?;
        Ok(true)
    }
}
