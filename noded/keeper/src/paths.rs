//! Where everything lies in the runtime directory. It must be on a tmpfs (a record must not wait
//! for a disk) and only root may enter it.

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where the runtime directory is when nobody says otherwise.
pub const DEFAULT_RUNTIME_DIRECTORY: &str = "/run/drover";

/// Where the task cgroups are when nobody says otherwise and cgroup v2 is the host's only
/// hierarchy.
pub const DEFAULT_CGROUP_BASE: &str = "/sys/fs/cgroup/drover/tasks";

/// Why the runtime directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    #[error("directory {} cannot be made", .path.display())]
    Make {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("directory {} cannot be opened", .path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("directory {} belongs to user {owner}, not to {expected}", .path.display())]
    Owner {
        path: PathBuf,
        owner: u32,
        expected: u32,
    },
}

/// The names below one runtime directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimePaths {
    root: PathBuf,
}

impl RuntimePaths {
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Makes the directories that are missing, mode 0700, and closes existing ones to others.
    ///
    /// # Errors
    /// Where one cannot be made, or belongs to another user.
    pub fn create(&self) -> Result<(), PathsError> {
        for path in [
            self.root.clone(),
            self.io_directory(),
            self.records_directory(),
        ] {
            match fs::mkdir(&path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(source) => return Err(PathsError::Make { path, source }),
            }
            close_to_others(&path)?;
        }
        Ok(())
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// keeper's `SOCK_SEQPACKET` socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.join("keeper.sock")
    }

    /// Locked by the one keeper as long as it lives.
    #[must_use]
    pub fn keeper_lock(&self) -> PathBuf {
        self.root.join("keeper.lock")
    }

    /// Locked by the one pump as long as it lives.
    #[must_use]
    pub fn pump_lock(&self) -> PathBuf {
        self.root.join("pump.lock")
    }

    /// FIFOs and stream specifications: the contract of noded and pump.
    #[must_use]
    pub fn io_directory(&self) -> PathBuf {
        self.root.join("io")
    }

    /// keeper's own record of each run, for the keeper after it.
    #[must_use]
    pub fn records_directory(&self) -> PathBuf {
        self.root.join("records")
    }
}

impl Default for RuntimePaths {
    fn default() -> Self {
        Self::new(DEFAULT_RUNTIME_DIRECTORY)
    }
}

/// Opens a directory by a path that is trusted as a whole.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, PathsError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::open(path, flags, Mode::empty()).map_err(|source| PathsError::Open {
        path: path.to_owned(),
        source,
    })
}

fn close_to_others(path: &Path) -> Result<(), PathsError> {
    let failed = |source| PathsError::Open {
        path: path.to_owned(),
        source,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let owner = fs::fstat(&directory).map_err(failed)?.st_uid;
    let expected = rustix::process::geteuid().as_raw();
    if owner != expected {
        return Err(PathsError::Owner {
            path: path.to_owned(),
            owner,
            expected,
        });
    }
    fs::fchmod(&directory, Mode::RWXU).map_err(failed)
}
