//! The data directory of a server's log: who may look into it, who uses it, and whose it is.
//!
//! ```text
//!   log/       server-id
//!   absent     absent      a new server: new id
//!   present    absent      the copy was lost: written again
//!   present    the same    a restart
//!   present    another     refused: two servers' files were mixed
//!   absent     present     refused: the log was removed, and what this id voted with it
//! ```

use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use super::disk::{Disk, Lock, Opening};
use crate::member::ServerId;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{operation} {path}")]
    Access {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is in use by another process")]
    InUse { path: PathBuf },
    #[error(
        "{path}: {reason}. What this server acknowledged may be lost with it, so it must not vote \
         again. Look at the disk, then replace the server: empty its data directory and start it; \
         it joins as a new server at its address and gets everything from the others. If it is the \
         only server, start it like that and restore a saved snapshot (drover operator snapshot \
         restore FILE)"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "{path} names a server whose log is gone; a server without its log must not vote again: \
         remove the whole directory to start as a new server"
    )]
    LogRemoved { path: PathBuf },
    #[error("{path} names server {named}, but the log belongs to {actual}")]
    OtherServer {
        path: PathBuf,
        named: String,
        actual: ServerId,
    },
    #[error(
        "{path} was written by a build from before the first release, whose log this one cannot \
         read: save a snapshot with that build, remove the data directory, and restore it here"
    )]
    OldLayout { path: PathBuf },
}

/// Says what failed, and where.
pub(super) fn failed(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> DirectoryError {
    let path = path.to_owned();
    move |source| DirectoryError::Access {
        operation,
        path,
        source,
    }
}

/// The directory while anyone uses it. The fields are dropped in order: when the watch ends, the
/// lock is gone.
#[derive(Debug)]
pub(crate) struct Held {
    _lock: Box<dyn Lock>,
    open: watch::Sender<()>,
}

impl Held {
    /// A watch that ends when nobody uses the directory any more.
    pub(crate) fn released(&self) -> watch::Receiver<()> {
        self.open.subscribe()
    }
}

/// Makes the directory if it is missing, and takes it for this process.
pub(super) fn hold(disk: &dyn Disk, directory: &Path) -> Result<Held, DirectoryError> {
    let preparing = failed("preparing", directory);
    disk.make_private(directory).map_err(preparing)?;
    let path = directory.join("lock");
    match disk.lock(&path) {
        Ok(Some(lock)) => Ok(Held {
            _lock: lock,
            open: watch::Sender::new(()),
        }),
        Ok(None) => Err(DirectoryError::InUse {
            path: directory.to_owned(),
        }),
        Err(error) => Err(failed("locking", &path)(error)),
    }
}

/// The copy of the id beside the log; `None` = there is none.
pub(super) fn read_id_copy(disk: &dyn Disk, path: &Path) -> Result<Option<String>, DirectoryError> {
    let text = |bytes| String::from_utf8(bytes).map_err(io::Error::other);
    match disk.read(path).and_then(text) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("reading", path)(error)),
    }
}

/// Sees that the copy beside the log names the log's server; writes it where it is missing.
pub(super) fn settle_id_copy(
    disk: &dyn Disk,
    directory: &Path,
    path: &Path,
    named: Option<String>,
    actual: ServerId,
) -> Result<(), DirectoryError> {
    match named {
        // Written whole or not at all: a cut-off copy would be taken for another server's.
        None => replace_file(disk, directory, path, format!("{actual}\n").as_bytes())
            .map_err(failed("writing", path)),
        Some(named) if named == actual.to_string() => Ok(()),
        Some(named) => Err(DirectoryError::OtherServer {
            path: path.to_owned(),
            named,
            actual,
        }),
    }
}

/// Replaces `path` in `directory` by `content`, durably.
pub(crate) fn replace_file(
    disk: &dyn Disk,
    directory: &Path,
    path: &Path,
    content: &[u8],
) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let file = disk.open(&temporary, Opening::Emptied)?;
    file.write_at(content, 0)?;
    file.sync()?;
    disk.rename(&temporary, path)?;
    disk.sync_directory(directory)
}
