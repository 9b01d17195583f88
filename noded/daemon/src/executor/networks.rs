//! Network namespaces of allocations with no network: one of each, shared by its tasks, pinned in
//! the runtime directory, so that the tasks that a restarted noded starts join the others.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use netns::{NamespaceError, PinError};
use parking_lot::Mutex;
use protocol_model::AllocId;

/// Why an allocation has no network namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The directory for pins could not be made.
    #[error("making {}", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// None could be made.
    #[error("making a network namespace")]
    Create(#[source] NamespaceError),
    /// It could not be kept, or found.
    #[error("keeping a network namespace")]
    Pin(#[source] PinError),
}

/// The pinned namespaces below a runtime directory.
#[derive(Debug)]
pub struct Networks {
    directory: PathBuf,
    /// Two tasks of an allocation may start at once, and must not make two.
    making: Mutex<()>,
}

impl Networks {
    /// Those below `run_dir`.
    pub fn below(run_dir: &Path) -> Self {
        Self {
            directory: run_dir.join("networks"),
            making: Mutex::new(()),
        }
    }

    /// The namespace of an allocation, made by its first task.
    ///
    /// # Errors
    /// Where none can be made or kept.
    pub fn of(&self, alloc: AllocId) -> Result<OwnedFd, NetworkError> {
        let _making = self.making.lock();
        let path = self.path(alloc);
        if let Some(pinned) = netns::open_pinned(&path).map_err(NetworkError::Pin)? {
            return Ok(pinned);
        }
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory);
        made.map_err(|source| NetworkError::Directory {
            path: self.directory.clone(),
            source,
        })?;
        let network = netns::create_loopback_only().map_err(NetworkError::Create)?;
        netns::pin(&path, &network).map_err(NetworkError::Pin)?;
        Ok(network)
    }

    /// Lets the namespace of an allocation go; the kernel ends it with the last process in it. One
    /// that is not there is gone already.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn release(&self, alloc: AllocId) -> Result<(), NetworkError> {
        netns::unpin(&self.path(alloc)).map_err(NetworkError::Pin)
    }

    /// Lets all of them go; returns what did not.
    pub fn release_all(&self) -> Vec<NetworkError> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten();
        let mut failed = Vec::new();
        for entry in entries.flatten() {
            if let Err(error) = netns::unpin(&entry.path()) {
                failed.push(NetworkError::Pin(error));
            }
        }
        // Not empty where something failed, and not there where there was none.
        let _ = std::fs::remove_dir(&self.directory);
        failed
    }

    fn path(&self, alloc: AllocId) -> PathBuf {
        self.directory.join(alloc.to_string())
    }
}
