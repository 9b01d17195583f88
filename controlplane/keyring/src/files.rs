//! The files of a server's KEKs: a directory with one file per key, `<KEK id>.kek`. So the KEK of
//! a restored snapshot lies beside the server's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::kek::{Kek, KekId};
use crate::kek_file::{KEK_FILE_BYTES_MAX, KekTextError};

/// How many files of a directory are read as KEKs. A cluster needs one, and one per restored
/// history.
const KEK_FILES_MAX: usize = 256;
/// The end of a KEK file's name.
const SUFFIX: &str = ".kek";

/// Why a KEK was not read or stored. No text holds any of the key.
#[derive(Debug, thiserror::Error)]
pub enum KekFileError {
    /// A system call failed.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is a directory, a pipe or the like.
    #[error("{} is no regular file", path.display())]
    NotFile {
        /// The path.
        path: PathBuf,
    },
    /// Another user wrote it, or may read it.
    #[error(
        "{} is owned by user {owner} with mode {mode:04o}; a KEK must be readable by user {own} \
         alone: `chown {own}` and `chmod {wanted:04o}` it",
        path.display()
    )]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its mode.
        mode: u32,
        /// The user that this process runs as.
        own: u32,
        /// The mode that it must have.
        wanted: u32,
    },
    /// It is no KEK file.
    #[error("{} cannot be used", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: KekTextError,
    },
    /// Its name is not that of the key in it.
    #[error("{} holds KEK {found}: rename it to {found}{SUFFIX}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The KEK in it.
        found: KekId,
    },
    /// The service manager hands over no credentials.
    #[error(
        "$CREDENTIALS_DIRECTORY is not set: run the server as a systemd service with \
         `LoadCredential={name}:FILE` or `LoadCredentialEncrypted={name}:FILE`"
    )]
    NoCredentials {
        /// The one that is wanted.
        name: String,
    },
    /// The environment lacks the variable.
    #[error("${variable} is not set: set it to the text of a KEK file where the server starts")]
    Unset {
        /// Its name.
        variable: String,
    },
    /// There are too many.
    #[error(
        "{} holds more than {KEK_FILES_MAX} KEK files: move those that are not needed",
        path.display()
    )]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
}

/// The contents of a [`KekStore`]. A file that cannot be used hinders no other one.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct LoadedKeks {
    /// The KEKs.
    pub keks: Vec<Kek>,
    /// KEKs that the host hands over: they are in no file, and no other server gets them.
    pub provided: BTreeSet<KekId>,
    /// The KEK that every root key is to be wrapped with; `None` where any may.
    pub wanted: Option<KekId>,
    /// The files that cannot be used, and why.
    pub unusable: Vec<KekFileError>,
}

/// Keeps KEKs. Its calls block.
pub trait KekStore: fmt::Debug + Send + Sync {
    /// Reads all of them.
    ///
    /// # Errors
    /// When not even their list can be read.
    fn load(&self) -> Result<LoadedKeks, KekFileError>;

    /// Keeps one durably: when this returns, a power cut does not take it away.
    ///
    /// # Errors
    /// When it could not be kept.
    fn store(&self, kek: &Kek) -> Result<(), KekFileError>;
}

/// The KEKs below a directory of this host.
#[derive(Clone, Debug)]
pub struct FileKeks {
    directory: PathBuf,
    own: u32,
}

impl FileKeks {
    /// The KEK files in `directory`, which is made when the first KEK is stored.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            own: rustix::process::geteuid().as_raw(),
        }
    }

    /// The file of a KEK.
    pub fn path_of(&self, id: KekId) -> PathBuf {
        self.directory.join(format!("{id}{SUFFIX}"))
    }

    fn read(&self, path: &Path) -> Result<Kek, KekFileError> {
        let failed = |source| io_error("read", path, source);
        // O_NONBLOCK: a FIFO of that name must not stop the server.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = flags.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(KekFileError::NotFile {
                path: path.to_owned(),
            });
        }
        self.private(path, &found, 0o600)?;
        // With its whole capacity from the beginning: a buffer that grows leaves copies behind.
        let mut text = Zeroizing::new(Vec::with_capacity(2 * KEK_FILE_BYTES_MAX));
        file.take(KEK_FILE_BYTES_MAX as u64 + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        let kek = Kek::from_text(&text).map_err(|source| KekFileError::Text {
            path: path.to_owned(),
            source,
        })?;
        match path == self.path_of(kek.id()) {
            true => Ok(kek),
            false => Err(KekFileError::Name {
                path: path.to_owned(),
                found: kek.id(),
            }),
        }
    }

    /// Refuses what another user owns, or may enter, read or write.
    fn private(&self, path: &Path, found: &fs::Metadata, wanted: u32) -> Result<(), KekFileError> {
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        if owner == self.own && mode & 0o077 == 0 {
            return Ok(());
        }
        Err(KekFileError::Open {
            path: path.to_owned(),
            owner,
            mode,
            own: self.own,
            wanted,
        })
    }

    fn prepare_directory(&self) -> Result<(), KekFileError> {
        let path = &self.directory;
        let mut builder = DirBuilder::new();
        match builder.mode(0o700).create(path) {
            // Without this a power cut may take the directory along with what was synced in it.
            Ok(()) => sync_directory(path.parent().unwrap_or(path))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("make", path, error)),
        }
        let found = path.metadata();
        let found = found.map_err(|error| io_error("look at", path, error))?;
        self.private(path, &found, 0o700)
    }

    fn write(&self, kek: &Kek, path: &Path) -> Result<(), KekFileError> {
        let unfinished = path.with_extension("new");
        let failed = |source| io_error("write", &unfinished, source);
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(failed)?;
        file.write_all(kek.to_text().as_bytes()).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        fs::rename(&unfinished, path).map_err(|source| io_error("name", path, source))?;
        sync_directory(&self.directory)
    }
}

impl KekStore for FileKeks {
    fn load(&self) -> Result<LoadedKeks, KekFileError> {
        let failed = |source| io_error("list", &self.directory, source);
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(LoadedKeks::default());
            }
            Err(error) => return Err(failed(error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|it| it == &SUFFIX[1..]) {
                paths.push(path);
            }
            if paths.len() > KEK_FILES_MAX {
                return Err(KekFileError::TooMany {
                    path: self.directory.clone(),
                });
            }
        }
        paths.sort();
        let mut loaded = LoadedKeks::default();
        for path in paths {
            match self.read(&path) {
                Ok(kek) => loaded.keks.push(kek),
                Err(error) => loaded.unusable.push(error),
            }
        }
        Ok(loaded)
    }

    fn store(&self, kek: &Kek) -> Result<(), KekFileError> {
        self.prepare_directory()?;
        let path = self.path_of(kek.id());
        match self.read(&path) {
            // A crash may have come before its name was durable.
            Ok(_) => {
                let file = File::open(&path).and_then(|file| file.sync_data());
                file.map_err(|source| io_error("sync", &path, source))?;
                sync_directory(&self.directory)
            }
            Err(KekFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                self.write(kek, &path)
            }
            // A file of this name that cannot be used is the operator's to look at.
            Err(error) => Err(error),
        }
    }
}

/// KEKs in memory alone: for simulators and tests.
#[derive(Default)]
pub struct MemoryKeks {
    keks: Mutex<BTreeMap<KekId, Kek>>,
}

impl fmt::Debug for MemoryKeks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keks.lock().keys()).finish()
    }
}

impl KekStore for MemoryKeks {
    fn load(&self) -> Result<LoadedKeks, KekFileError> {
        Ok(LoadedKeks {
            keks: self.keks.lock().values().cloned().collect(),
            ..LoadedKeks::default()
        })
    }

    fn store(&self, kek: &Kek) -> Result<(), KekFileError> {
        self.keks.lock().insert(kek.id(), kek.clone());
        Ok(())
    }
}

fn sync_directory(path: &Path) -> Result<(), KekFileError> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|source| io_error("sync", path, source))
}

pub(crate) fn io_error(what: &'static str, path: &Path, source: io::Error) -> KekFileError {
    KekFileError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}
